#include "trainer/library/retention.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "trainer/library/files.hpp"
#include "trainer/library/names.hpp"
#include "trainer/library/refusal.hpp"
#include "trainer/library/trees.hpp"

namespace spotter::checkpoint {

namespace fs = std::filesystem;

namespace {

// Renames it first, then removes it: an interrupted removal must not look like a torn checkpoint.
void remove_checkpoint(const fs::path& directory, std::uint64_t step) {
  const fs::path doomed = directory / (std::string(kTemporary) + "old-" + directory_name(step));
  remove_tree(doomed);
  if (::rename((directory / directory_name(step)).c_str(), doomed.c_str()) == 0)
    remove_tree(doomed);
}

std::optional<double> metric_of(const fs::path& checkpoint) {
  const auto manifest = read_manifest(checkpoint);
  return manifest ? manifest->metric : std::nullopt;
}

bool may_go(const fs::path& checkpoint) {
  const auto manifest = read_manifest(checkpoint);
  return manifest || manifest.error().why == Refusal::Why::Torn;
}

}  // namespace

std::set<std::uint64_t> kept(std::vector<Kept> all, std::uint64_t just_written,
                             const Retention& retention) {
  std::set<std::uint64_t> keep = {just_written};
  std::sort(all.begin(), all.end(), [](const Kept& a, const Kept& b) { return a.step > b.step; });
  for (const auto& one : all) {
    if (keep.size() >= retention.last) break;
    keep.insert(one.step);
  }
  if (retention.every != 0) {
    // From the oldest on: the first of each span that begins with a multiple of `every`. It stays
    // the first, so once kept it is kept for good.
    std::uint64_t span = 0;
    for (auto one = all.rbegin(); one != all.rend(); ++one) {
      if (one->step / retention.every > span) keep.insert(one->step);
      span = std::max(span, one->step / retention.every);
    }
  }
  std::erase_if(all, [](const Kept& one) { return !one.metric; });
  std::stable_sort(all.begin(), all.end(), [&](const Kept& a, const Kept& b) {
    return retention.higher_is_better ? *a.metric > *b.metric : *a.metric < *b.metric;
  });
  for (std::size_t i = 0; i < std::min(retention.best, all.size()); ++i) keep.insert(all[i].step);
  return keep;
}

void apply(const Retention& retention, const fs::path& directory, std::uint64_t just_written) {
  const auto steps = steps_in(directory);
  if (!steps) return;
  std::vector<Kept> all;
  for (const auto step : *steps) {
    const bool judged = retention.best != 0;
    all.push_back({step, judged ? metric_of(directory / directory_name(step)) : std::nullopt});
  }
  const auto keep = kept(std::move(all), just_written, retention);
  for (const auto step : *steps) {
    const bool goes = !keep.contains(step) && may_go(directory / directory_name(step));
    if (goes) remove_checkpoint(directory, step);
  }
}

}  // namespace spotter::checkpoint
