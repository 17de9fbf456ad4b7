// `spotter launch --dry-run`.
#pragma once

#include <vector>

#include "agent/tools/jobs/launched_job.hpp"

namespace spotter::command {

// Prints the requests of a first launch in each of its places, as commands of `aws`. Returns the
// exit status.
int print_all_requests(const LaunchedJob& launched, const std::vector<config::Job>& jobs);

}  // namespace spotter::command
