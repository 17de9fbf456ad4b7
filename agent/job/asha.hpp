// When a sweep ends an experiment before its time, as `sweep.stop` of job.yaml says. Pure.
#pragma once

#include <cstdint>
#include <optional>

namespace spotter::sweep {

// Asynchronous successive halving: rungs at `first`, `first * reduction`, ... steps. What is not
// among the best 1/`reduction` at a rung ends there (sweep/asha.hpp).
struct Asha {
  std::uint64_t reduction = 3;
  // Steps; none: three rungs before the end that the trainer reports, at 1/27, 1/9 and 1/3 of it.
  std::optional<std::uint64_t> first;
};

}  // namespace spotter::sweep
