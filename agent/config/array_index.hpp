// Finds this process's part of an array job, by the engine's own variables. Pure.
// Sources: https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html, sbatch(1),
// https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
#pragma once

#include <functional>
#include <optional>

#include "agent/base/result.hpp"

namespace spotter::sweep {

struct ArrayIndex {
  std::string variable;     // that has it, for messages
  std::uint64_t index = 0;  // as the engine counts: Slurm's --array=3,7 has 3 and 7
  // The part counted from 0, where the engine says how many there are.
  struct Part {
    std::uint64_t number = 0;
    std::uint64_t of = 1;
  };
  std::optional<Part> part;
};

using Variable = std::function<std::string(const char* name)>;  // empty: not set

// Reads AWS_BATCH_JOB_ARRAY_INDEX, SLURM_ARRAY_TASK_ID, or JOB_COMPLETION_INDEX of Kubernetes.
// None: no variable is set, so there is no array. Fails for a value that is no number. If
// SPOTTER_SWEEP_INDICES lists the sets of a Batch array (index_list.hpp), returns the set's index
// among all sets; without an array, of its only set.
Result<std::optional<ArrayIndex>> array_index(const Variable& variable);

}  // namespace spotter::sweep
