// What the agent goes by: the job as the core's policy, and where on this machine it works.
#pragma once

#include <string>

#include "agent/act/aws/environment.hpp"
#include "agent/config/job.hpp"
#include "agent/decide/policy.hpp"

namespace spotter {

// `once`: `spotter run`.
decide::Policy policy_of(const config::Job& job, bool once);

// $SPOTTER_RUN, or /run/spotter.
std::string run_directory_of(const act::Environment& environment);

std::string own_program();

// Is PID 1 bringing the machine down? Then the storage must be let go; a mere restart of the
// service must leave the trainer alone.
bool machine_is_stopping();

}  // namespace spotter
