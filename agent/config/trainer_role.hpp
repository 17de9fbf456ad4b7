// The role that the trainer has credentials of: `trainer.role` of job.yaml, and its default.
#pragma once

#include <string>

#include "agent/config/job.hpp"

namespace spotter::config {

// Stands for the instances' own role, which may delete the job's volumes.
inline constexpr const char* instances_role = "instance";

inline bool has_instances_role(const Trainer& trainer) { return trainer.role == instances_role; }

// The name or ARN of the trainer's own role: the one in job.yaml, else by convention the name of
// the instances' role followed by "-trainer". REQUIRES: it has not the instances' own role.
inline std::string trainers_role(const Trainer& trainer, const std::string& instances) {
  return trainer.role.empty() ? instances + "-trainer" : trainer.role;
}

}  // namespace spotter::config
