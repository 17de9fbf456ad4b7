// Whose credentials the trainer has: `trainer.role` of job.yaml, and what it means when it is not
// there.
#pragma once

#include <string>

#include "agent/job/job.hpp"

namespace spotter::config {

// The word for the role of the instances themselves, which may delete the job's volumes.
inline constexpr const char* instances_role = "instance";

inline bool has_instances_role(const Trainer& trainer) { return trainer.role == instances_role; }

// Name or ARN of a role of its own: what job.yaml says, else by convention that of the instances'
// role, `instances`, with "-trainer" behind. REQUIRES: it has not the instances' own.
inline std::string trainers_role(const Trainer& trainer, const std::string& instances) {
  return trainer.role.empty() ? instances + "-trainer" : trainer.role;
}

}  // namespace spotter::config
