// A handful of threads for one list of tasks. Not a pool: a thread costs some 50 microseconds, and
// a checkpoint takes milliseconds at the least.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::checkpoint {

// Runs task(0) .. task(count - 1), begun in this order, by `threads` at most. After a failure no
// further task is begun; the first failure is returned.
Result<void> run_parallel(std::size_t count, std::size_t threads,
                          const std::function<Result<void>(std::size_t)>& task);

}  // namespace spotter::checkpoint
