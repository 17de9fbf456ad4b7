#include "trainer/library/names.hpp"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "trainer/library/files.hpp"
#include "trainer/library/trees.hpp"

namespace spotter::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kStepDigits = 12;

}  // namespace

std::string directory_name(std::uint64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kStepDigits) digits.insert(0, kStepDigits - digits.size(), '0');
  return std::string(kPrefix) + digits;
}

std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t step = 0;
  const auto [end, error] =
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (error != std::errc() || name != directory_name(step)) return std::nullopt;
  return step;
}

Result<std::vector<std::uint64_t>> steps_in(const fs::path& directory) {
  auto names = list_names(directory);
  if (!names) return tl::unexpected(names.error());
  std::vector<std::uint64_t> steps;
  for (const auto& name : *names) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

// A live writer holds a lock on its temporary directory. A pid would not do, as other instances and
// containers use the same ones.
void remove_leftovers(const fs::path& directory) {
  const auto names = list_names(directory);
  if (!names) return;
  for (const auto& name : *names) {
    if (!name.starts_with(kTemporary)) continue;
    const fs::path path = directory / name;
    const auto opened = open_directory(path);
    // It may be alive: perhaps no descriptor was left to test its lock.
    if (!opened && errno != ENOTDIR) continue;
    if (opened && ::flock(opened->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
    remove_tree(path);  // one that stays only costs space
  }
}

}  // namespace spotter::checkpoint
