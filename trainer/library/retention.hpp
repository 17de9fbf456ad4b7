// Which checkpoints are kept. The one just written always is, as it is known to be good. One that
// is unreadable now, or a newer Spotter's, is not removed, and does not count: the others are kept
// or removed as if it did not exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

namespace spotter::checkpoint {

struct Retention {
  std::size_t last = 2;  // two, so that there is another one if the newest is torn
  std::uint64_t every =
      0;                 // steps; of each so many, the first checkpoint is kept for good. 0: none
  std::size_t best = 0;  // so many with the best metric
  bool higher_is_better = true;
};

struct Kept {
  std::uint64_t step = 0;
  std::optional<double> metric;  // none: not compared with the others
};

// The steps to keep of `all`. Pure.
std::set<std::uint64_t> kept(std::vector<Kept> all, std::uint64_t just_written,
                             const Retention& retention);

// Removes all others that are known to be ours, complete or torn. Failures are ignored until the
// next call.
void apply(const Retention& retention, const std::filesystem::path& directory,
           std::uint64_t just_written);

}  // namespace spotter::checkpoint
