#include "trainer/library/checkpoint.hpp"

#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "agent/base/text.hpp"
#include "trainer/library/writer.hpp"

namespace spotter::checkpoint {

namespace {

constexpr std::size_t kStepDigits = 12;

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

Torn move_aside(const fs::path& directory, std::uint64_t step, std::string reason) {
  const fs::path path = directory / directory_name(step);
  for (int number = 0; number < 1000; ++number) {
    const std::string suffix = number == 0 ? "" : "-" + std::to_string(number);
    const fs::path target = directory / (std::string(kTorn) + directory_name(step) + suffix);
    if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) {
      return {path, target, std::move(reason)};
    }
    if (errno != EEXIST) break;
  }
  return {path, {}, std::move(reason)};
}

Result<void, Refusal> check_part(const fs::path& path, const PartEntry& part) {
  Sum sum;
  int code = 0;
  const auto read = read_pieces(
      path / part.name, [&](std::string_view piece) { sum.add(piece); }, &code, part.bytes);
  if (!read) return tl::unexpected(refusal(code, read.error().message));
  if (*read != part.bytes) {
    return tl::unexpected(refusal(0, part.name + " has " + std::to_string(*read) + " bytes, not " +
                                         std::to_string(part.bytes)));
  }
  if (sum.hex() != part.xxh3_128) return tl::unexpected(refusal(0, part.name + " has a wrong sum"));
  return {};
}

Result<Checkpoint, Refusal> open_checkpoint(const fs::path& path) {
  auto manifest = read_manifest(path);
  if (!manifest) {
    auto why = std::move(manifest.error());
    if (why.why == Refusal::Why::Newer) why.reason = path.string() + ": " + why.reason;
    return tl::unexpected(std::move(why));
  }
  return Checkpoint{manifest->step, path, std::move(manifest->meta), std::move(manifest->parts)};
}

Result<Checkpoint, Refusal> examine(const fs::path& path) {
  auto checkpoint = TRY(open_checkpoint(path));
  for (const auto& part : checkpoint.parts) TRY(check_part(path, part));
  return checkpoint;
}

Result<Loaded, Refusal> load(const fs::path& path) {
  auto checkpoint = TRY(open_checkpoint(path));
  int code = 0;
  auto parts = read_parts(path, checkpoint.parts, &code);
  if (!parts) return tl::unexpected(refusal(code, parts.error().message));
  return Loaded{std::move(checkpoint), std::move(*parts)};
}

std::uint64_t step_in(const Checkpoint& checkpoint) { return checkpoint.step; }
std::uint64_t step_in(const Loaded& loaded) { return loaded.checkpoint.step; }

enum class OfTorn : std::uint8_t { MoveAside, Leave };

// Applies `look` to directory/step-..., which must be of that step. A torn one is reported, moved
// or left, and none returned.
template <class T>
Result<std::optional<T>, Refusal> take(Result<T, Refusal> (*look)(const fs::path&),
                                       const fs::path& directory, std::uint64_t step,
                                       OfTorn of_torn, std::vector<Torn>& torn) {
  auto seen = look(directory / directory_name(step));
  if (seen && step_in(*seen) != step) {
    const std::string says = std::to_string(step_in(*seen));
    seen = tl::unexpected(refusal(0, "the manifest says step " + says));
  }
  if (seen) return std::optional<T>(std::move(*seen));
  if (seen.error().why != Refusal::Why::Torn) return tl::unexpected(std::move(seen.error()));
  const bool move = of_torn == OfTorn::MoveAside;
  const fs::path path = directory / directory_name(step);
  torn.push_back(move ? move_aside(directory, step, seen.error().reason)
                      : Torn{path, {}, seen.error().reason});
  return Result<std::optional<T>, Refusal>(tl::in_place);
}

Result<Latest> first_good(const fs::path& directory, OfTorn of_torn) {
  const auto steps = TRY(steps_in(directory));
  Latest result;
  for (const auto step : steps) {
    auto taken = take<Checkpoint>(examine, directory, step, of_torn, result.torn);
    if (!taken) return failure(taken.error().reason);
    result.newest = std::move(*taken);
    if (result.newest) break;
  }
  return result;
}

// Fails if no checkpoint verified but torn ones exist, set aside now, earlier, or by the agent:
// starting from scratch would silently abandon the run.
Result<void> none_was_lost(const fs::path& directory, const std::vector<Torn>& torn) {
  const auto names = TRY(list_names(directory));
  std::string lost;
  for (const auto& name : names) {
    const bool aside = name.starts_with(std::string(kTorn) + std::string(kPrefix));
    const bool immovable = std::any_of(torn.begin(), torn.end(), [&](const Torn& one) {
      return one.path == directory / name && one.moved_to.empty();
    });
    if (aside || immovable) lost += " " + name;
  }
  if (lost.empty()) return {};
  std::string reasons;
  for (const auto& one : torn) reasons += "\n  " + one.path.string() + ": " + one.reason;
  return failure("there are checkpoints in " + directory.string() + ", but all are torn:" + lost +
                 reasons +
                 "\n  Put a good one there (of a copy, of a snapshot of the volume). To start from"
                 " scratch, remove these, or name another directory.");
}

}  // namespace

std::string directory_name(std::uint64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kStepDigits) digits.insert(0, kStepDigits - digits.size(), '0');
  return std::string(kPrefix) + digits;
}

std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto step = number_of_text<std::uint64_t>(name.substr(kPrefix.size()));
  return step && name == directory_name(*step) ? step : std::nullopt;
}

Result<std::vector<std::uint64_t>> steps_in(const fs::path& directory) {
  auto names = TRY(list_names(directory));
  std::vector<std::uint64_t> steps;
  for (const auto& name : names) {
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

Refusal refusal(int code, std::string reason) {
  const bool torn = code == 0 || is_absence(code);
  return {torn ? Refusal::Why::Torn : Refusal::Why::Unread, std::move(reason)};
}

Result<Manifest, Refusal> read_manifest(const fs::path& checkpoint) {
  int code = 0;
  const auto bytes = read_whole(checkpoint / kManifestName, kManifestLimit, &code);
  if (!bytes) return tl::unexpected(refusal(code, bytes.error().message));
  auto manifest = decode(*bytes);
  if (manifest) return std::move(*manifest);
  const auto why = wire::is_newer(manifest.error()) ? Refusal::Why::Newer : Refusal::Why::Torn;
  return tl::unexpected(Refusal{why, manifest.error().message});
}

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

Result<fs::path> save(const fs::path& directory, std::uint64_t step, std::span<const Part> parts,
                      const nlohmann::json& meta, Retention retention) {
  const auto lock = TRY(WriterLock::take(directory));
  auto writer = TRY(Writer::begin(directory, step));
  TRY(writer.add_parts(parts));
  auto path = writer.commit(meta);
  if (path) apply(retention, directory, step);
  return path;
}

Result<Checkpoint> verify(const fs::path& path) {
  auto checkpoint = examine(path);
  if (!checkpoint) return failure(path.string() + ": " + checkpoint.error().reason);
  return std::move(*checkpoint);
}

Result<Latest> latest(const fs::path& directory) {
  remove_leftovers(directory);
  return first_good(directory, OfTorn::MoveAside);
}

Result<Latest> newest_in(const fs::path& directory) { return first_good(directory, OfTorn::Leave); }

Result<Restored> restore(std::span<const fs::path> directories) {
  struct Candidate {
    std::uint64_t step;
    const fs::path* directory;
  };
  std::vector<Candidate> candidates;
  for (const auto& directory : directories) {
    remove_leftovers(directory);
    const auto steps = steps_in(directory);
    if (!steps && &directory != &directories.back()) continue;
    if (!steps) return tl::unexpected(steps.error());
    for (const auto step : *steps) candidates.push_back({step, &directory});
  }
  const auto newer = [](const Candidate& a, const Candidate& b) { return a.step > b.step; };
  std::stable_sort(candidates.begin(), candidates.end(), newer);
  Restored result;
  for (const auto& one : candidates) {
    auto taken = take<Loaded>(load, *one.directory, one.step, OfTorn::MoveAside, result.torn);
    const bool refused = !taken && taken.error().why == Refusal::Why::Newer;
    if (!taken && !refused && one.directory != &directories.back()) continue;
    if (!taken) return failure(taken.error().reason, refused ? wire::newer_format : "");
    result.newest = std::move(*taken);
    if (result.newest) return result;
  }
  TRY(none_was_lost(directories.back(), result.torn));
  return result;
}

}  // namespace spotter::checkpoint
