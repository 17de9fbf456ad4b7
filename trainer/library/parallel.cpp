#include "trainer/library/parallel.hpp"

#include <algorithm>
#include <optional>
#include <system_error>
#include <thread>

namespace spotter::checkpoint {

Result<void> run_parallel(std::size_t count, std::size_t threads,
                          const std::function<Result<void>(std::size_t)>& task) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::optional<Error> first;
  const auto work = [&] {
    for (std::size_t i = next++; i < count && !failed; i = next++) {
      auto done = task(i);
      if (done) continue;
      const std::scoped_lock lock(mutex);
      if (!first) first = std::move(done.error());
      failed = true;
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < std::min(threads, count)) others.emplace_back(work);
    } catch (const std::system_error&) {  // out of threads: fewer will do
    }
    work();
  }
  if (first) return tl::unexpected(*first);
  return {};
}

}  // namespace spotter::checkpoint
