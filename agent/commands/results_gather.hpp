// Reads the results of a sweep: from a folder with one folder for each experiment, or from a bucket
// with summaries beside the claims.
#pragma once

#include <filesystem>

#include "agent/commands/results.hpp"
#include "agent/config/job.hpp"

namespace spotter::command {

struct Gathered {
  Summaries all;
  std::vector<std::string> warnings;  // what could not be read
};

// `sets`: the job's, if known; an experiment without results is then waiting, else it is left out.
// Both read the storage, which may hang, so agents must not call them.
Result<Gathered> results_in_folder(const std::filesystem::path& folder,
                                   const std::optional<std::vector<sweep::Set>>& sets);
// `job`: where its experiments have their homes in the bucket, those without a summary are read
// there.
Result<Gathered> results_in_bucket(const wire::S3Location& prefix,
                                   const std::optional<std::vector<sweep::Set>>& sets,
                                   const std::optional<config::Job>& job = {});
// Results of a job in a bucket without claims, such as an array: all from the homes.
Result<Gathered> results_in_homes(const config::Job& job,
                                  const std::optional<std::vector<sweep::Set>>& sets);

// The place of the job's own results: its folder on the share, or in a bucket. Fails, saying what
// to do, if that cannot be reached from here.
Result<std::string> place_of_results(const config::Job& job);

}  // namespace spotter::command
