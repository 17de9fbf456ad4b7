// Chooses the experiment of a sweep that this process runs, and the job that results from it.
#pragma once

#include "agent/config/array_index.hpp"
#include "agent/config/job.hpp"

namespace spotter::command {

// Chooses a sweep's experiment, if the job was read: `sets` is fetched, the index is
// SPOTTER_EXPERIMENT, or that of the array that this process belongs to. Fills the command's
// placeholders and Job::experiment; each experiment has a volume of its own, and the index ends the
// value of its tag. A job without a sweep stays as it is, except that SPOTTER_ATTEMPT names its
// folder where machines claim the work. Errors say what to do: no index, one beyond the list, an
// array of another size than the list.
using FetchSets =
    std::function<Result<std::vector<sweep::Set>, config::Problem>(const config::Job& job)>;
Result<config::Job, std::vector<config::Problem>> with_experiment(
    Result<config::Job, std::vector<config::Problem>> job, const config::Environment& environment,
    const FetchSets& fetch);

// Makes a sweep's job that of one experiment; does not change its command.
void set_experiment(config::Job& job, std::size_t index, const sweep::Set& set);

}  // namespace spotter::command
