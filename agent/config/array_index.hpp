// Finds this process's part of an array job, by the engine's own variables. Pure.
// Sources: https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html, sbatch(1),
// https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
#pragma once

#include <functional>
#include <optional>
#include <string_view>

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
// SPOTTER_SWEEP_INDICES lists the sets of a Batch array, returns the set's index
// among all sets; without an array, of its only set.
Result<std::optional<ArrayIndex>> array_index(const Variable& variable);

// The sets of a sweep that an engine's job has, if not all: "3,17-19/50" are four of the 50.
// `spotter sweep` passes it to the container, whose array counts from 0.
inline constexpr const char* indices_variable = "SPOTTER_SWEEP_INDICES";

struct IndexList {
  std::vector<std::uint64_t> indices;  // ascending
  std::uint64_t of = 0;                // how many sets there are
};

IndexList all_indices(std::uint64_t sets);  // `sets` sets, all of them
std::string to_text(const IndexList& list);
// Fails for a text that to_text() would not produce, and for more than most_sets.
Result<IndexList> parse_index_list(std::string_view text);

}  // namespace spotter::sweep
