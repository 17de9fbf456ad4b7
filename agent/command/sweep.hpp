// `spotter sweep`: which experiments a job has.
#pragma once

#include "agent/command/experiment.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

void add_sweep(CLI::App& app, int& status);
void add_results(CLI::App& sweep, int& status);  // sweep_results.cpp

// The sets of a job with a sweep, fetched from S3 where that is where they are, and checked
// against the trainer's command. Problem::passing: S3 does not answer, or there are no credentials
// (yet: a container's or an instance's come a moment after it).
FetchedSets sets_of(const config::Job& job);

}  // namespace spotter::command
