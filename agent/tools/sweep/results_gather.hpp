// Where the results of a sweep are read from: a folder with one of each experiment, or a bucket
// with their summaries beside the claims.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/job/job.hpp"
#include "agent/tools/sweep/results.hpp"

namespace spotter::command {

struct Gathered {
  Summaries all;
  std::vector<std::string> warnings;  // what was there and could not be read
};

// `sets`: of the job, where it is known; who has left nothing yet is waiting. Else the experiments
// are those that have left something. Each touches the storage, which may hang: this is no agent.
Result<Gathered> results_in_folder(const std::filesystem::path& folder,
                                   const std::optional<std::vector<sweep::Set>>& sets);
Result<Gathered> results_in_bucket(const wire::S3Location& prefix,
                                   const std::optional<std::vector<sweep::Set>>& sets);

// Where the job's own are: its folder on the share. Fails when that is not to be seen from here,
// and says what to do.
Result<std::string> place_of_results(const config::Job& job);

}  // namespace spotter::command
