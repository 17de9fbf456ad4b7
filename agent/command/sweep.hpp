// `spotter sweep`: which experiments a job has.
#pragma once

#include "agent/config/job.hpp"
#include "agent/wire/result.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

void add_sweep(CLI::App& app, int& status);

// The sets of a job with a sweep, fetched from S3 where that is where they are, and checked
// against the trainer's command.
Result<std::vector<sweep::Set>> sets_of(const config::Job& job);

}  // namespace spotter::command
