// The parameter sets of a job with a sweep, from wherever they are.
#pragma once

#include "agent/config/experiment.hpp"

namespace spotter::command {

// Fetches the sets, from S3 if they are there, and checks them against the trainer's command.
// Problem::passing: S3 does not answer, or there are no credentials yet (a container's or an
// instance's come moments after its start).
Result<std::vector<sweep::Set>, config::Problem> sets_of(const config::Job& job);

}  // namespace spotter::command
