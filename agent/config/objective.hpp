// By which metric the experiments of a sweep are compared. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spotter::sweep {

struct Objective {
  std::string metric;  // "val_accuracy", "loss"
  bool largest_is_best = true;
};

// Judges by the last word of the name: the largest accuracy is best, the smallest loss. None: it
// says nothing, a person has to.
std::optional<bool> largest_is_best(std::string_view metric);

// The rule by which a sweep ends an experiment before its time, as `sweep.stop` of job.yaml says.
// Pure.

// Asynchronous successive halving: rungs at `first`, `first * reduction`, ... steps. An experiment
// that is not among the best 1/`reduction` at a rung ends there (sweep/asha.hpp).
struct Asha {
  std::uint64_t reduction = 3;
  // Steps; none: three rungs before the end that the trainer reports, at 1/27, 1/9 and 1/3 of it.
  std::optional<std::uint64_t> first;
};

}  // namespace spotter::sweep
