// Which checkpoints are kept. The one just written always is: it is the one known to be good. What
// cannot be read now, or was written by a newer Spotter, is not removed, and costs no other its
// place: whichever metric it has, what goes would have gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

namespace spotter::checkpoint {

struct Retention {
  std::size_t last = 2;  // two: when the newest turns out torn, there is one to fall back to
  std::uint64_t every =
      0;                 // steps; of each so many, the first checkpoint is kept for good. 0: none
  std::size_t best = 0;  // so many of the best metric
  bool higher_is_better = true;
};

struct Kept {
  std::uint64_t step = 0;
  std::optional<double> metric;  // none: no rival of those that have one
};

// The steps to keep of `all`. Pure.
std::set<std::uint64_t> kept(std::vector<Kept> all, std::uint64_t just_written,
                             const Retention& retention);

// Removes the others that are known to be ours, whole or torn. What cannot be removed stays until
// the next time.
void apply(const Retention& retention, const std::filesystem::path& directory,
           std::uint64_t just_written);

}  // namespace spotter::checkpoint
