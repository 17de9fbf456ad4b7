// Reads the results of a sweep: from a folder with one folder for each experiment, or from a bucket
// with summaries beside the claims.
#pragma once

#include "agent/commands/results.hpp"
#include "agent/config/job.hpp"

namespace spotter::command {

struct Gathered {
  Summaries all;
  std::vector<std::string> warnings;  // what could not be read
};

// From a folder, or s3://... `sets`: the job's, if known; an experiment without results is then
// waiting, else it is left out. `own`: the job, where the place is that of its own results: of one
// in a bucket, experiments without a summary are read in their homes there. This reads the storage,
// which may hang, so agents must not call it.
Result<Gathered> gather(const std::string& place,
                        const std::optional<std::vector<sweep::Set>>& sets,
                        const config::Job* own = nullptr);

// The place of the job's own results: its folder on the share, or in a bucket. Fails, saying what
// to do, if that cannot be reached from here.
Result<std::string> place_of_results(const config::Job& job);

}  // namespace spotter::command
