// Runs a list of tasks in a few threads. Not a pool: starting a thread takes some 50 microseconds,
// a checkpoint at least milliseconds.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::checkpoint {

// Runs task(0) .. task(count - 1), begun in this order, on `threads` threads at most. After a
// failure no further task is begun; the first failure is returned.
Result<void> run_parallel(std::size_t count, std::size_t threads,
                          const std::function<Result<void>(std::size_t)>& task);

}  // namespace spotter::checkpoint
