// Converts the job into the core's policy.
#pragma once

#include "agent/config/job.hpp"
#include "agent/decide/policy.hpp"

namespace spotter {

// `once`: `spotter run`.
decide::Policy policy_of(const config::Job& job, bool once);
// `spotter prepare`.
decide::Policy policy_to_fill(const config::Job& job);

// A part of a log line about the job: ", experiment 3: {...}", or empty.
std::string of_sweep(const config::Job& job);

// Is PID 1 shutting the machine down? Then the storage must be released, while a mere restart of
// the service must leave the trainer alone.
bool machine_is_stopping();

}  // namespace spotter
