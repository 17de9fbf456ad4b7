#include "trainer/checkpoint/checkpoint.hpp"

#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>

namespace spotter::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::size_t kStepDigits = 12;

std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t step = 0;
  const auto [end, error] =
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (error != std::errc() || name != directory_name(step)) return std::nullopt;
  return step;
}

// Newest first.
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

// A living writer holds a lock on its temporary directory: a process number would lie, since
// another instance, or another container, gives the same ones away again.
void remove_leftovers(const fs::path& directory) {
  const auto names = list_names(directory);
  if (!names) return;
  for (const auto& name : *names) {
    if (!name.starts_with(kTemporary)) continue;
    const fs::path path = directory / name;
    const auto opened = open_directory(path);
    if (opened && ::flock(opened->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
    std::error_code ignored;  // a leftover costs space, nothing else
    fs::remove_all(path, ignored);
  }
}

// First out of sight under one rename, then gone: a removal cut short must not look like a torn
// checkpoint.
void remove_checkpoint(const fs::path& directory, std::uint64_t step) {
  const fs::path doomed = directory / (std::string(kTemporary) + "old-" + directory_name(step));
  std::error_code error;
  fs::remove_all(doomed, error);
  fs::rename(directory / directory_name(step), doomed, error);
  if (!error) fs::remove_all(doomed, error);
}

void apply(Retention retention, const fs::path& directory, std::uint64_t just_written) {
  const auto steps = steps_in(directory);
  if (!steps) return;
  std::size_t kept = 1;  // the one just written: the only one known to be good
  for (const auto step : *steps) {
    if (step == just_written) continue;
    if (kept < retention.last) {
      ++kept;
    } else {
      remove_checkpoint(directory, step);
    }
  }
}

Torn move_aside(const fs::path& directory, std::uint64_t step, std::string reason) {
  const fs::path path = directory / directory_name(step);
  for (int number = 0; number < 1000; ++number) {
    const std::string suffix = number == 0 ? "" : "-" + std::to_string(number);
    const fs::path target = directory / ("torn-" + directory_name(step) + suffix);
    if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) {
      return {path, target, std::move(reason)};
    }
    if (errno != EEXIST) break;
  }
  return {path, {}, std::move(reason)};
}

// Failures that tell of the reader's situation and nothing of the checkpoint.
bool says_nothing(int code) {
  return code == EACCES || code == EPERM || code == EMFILE || code == ENFILE || code == ENOMEM;
}

struct Refusal {
  std::string reason;
  bool torn = true;  // false: it could not even be looked at
};

template <class T>
using Verdict = tl::expected<T, Refusal>;

Verdict<std::string> read_manifest(const fs::path& path) {
  std::string bytes;
  int code = 0;
  const auto read = read_pieces(
      path / kManifestName,
      [&](std::string_view piece) {
        if (bytes.size() <= kManifestLimit) bytes.append(piece);
      },
      &code);
  if (!read) return tl::unexpected(Refusal{read.error().message, !says_nothing(code)});
  return bytes;
}

Verdict<void> check_part(const fs::path& path, const PartEntry& part) {
  Sum sum;
  int code = 0;
  const auto read = read_pieces(
      path / part.name, [&](std::string_view piece) { sum.add(piece); }, &code);
  if (!read) return tl::unexpected(Refusal{read.error().message, !says_nothing(code)});
  if (*read != part.bytes) {
    return tl::unexpected(Refusal{part.name + " has " + std::to_string(*read) + " bytes, not " +
                                  std::to_string(part.bytes)});
  }
  if (sum.hex() != part.xxh3_128) return tl::unexpected(Refusal{part.name + " has a wrong sum"});
  return {};
}

Verdict<Checkpoint> examine(const fs::path& path) {
  const auto bytes = read_manifest(path);
  if (!bytes) return tl::unexpected(bytes.error());
  auto manifest = decode(*bytes);
  if (!manifest) return tl::unexpected(Refusal{manifest.error().message});
  for (const auto& part : manifest->parts) {
    if (auto good = check_part(path, part); !good) return tl::unexpected(good.error());
  }
  return Checkpoint{manifest->step, path, std::move(manifest->meta), std::move(manifest->parts)};
}

}  // namespace

std::string directory_name(std::uint64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kStepDigits) digits.insert(0, kStepDigits - digits.size(), '0');
  return std::string(kPrefix) + digits;
}

Writer::Writer(fs::path directory, fs::path temporary, std::uint64_t step, Descriptor opened)
    : directory_(std::move(directory)),
      temporary_(std::move(temporary)),
      opened_(std::move(opened)) {
  manifest_.step = step;
}

Writer::~Writer() { abandon(); }

void Writer::abandon() {
  if (!opened_) return;
  opened_ = Descriptor();
  std::error_code ignored;  // remove_leftovers() gets it another time
  fs::remove_all(temporary_, ignored);
}

Result<Writer> Writer::begin(const fs::path& directory, std::uint64_t step) {
  if (auto made = make_directories(directory); !made) return tl::unexpected(made.error());
  remove_leftovers(directory);
  const fs::path temporary =
      directory / (std::string(kTemporary) + directory_name(step) + "-" + std::to_string(getpid()));
  if (::mkdir(temporary.c_str(), 0755) != 0) return system_failure("cannot create", temporary);
  auto opened = open_directory(temporary);
  if (!opened) return tl::unexpected(opened.error());
  Writer writer(directory, temporary, step, std::move(*opened));
  // Without locks (some network file systems) two writers of one directory must not start at once.
  if (::flock(writer.opened_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return failure("another writer took " + temporary.string());
  }
  return writer;
}

Result<void> Writer::add_part(const std::string& name, std::string_view bytes) {
  if (!opened_) return failure("this checkpoint was given up after an earlier failure");
  const auto same = [&](const PartEntry& part) { return part.name == name; };
  if (!is_part_name(name) || std::any_of(manifest_.parts.begin(), manifest_.parts.end(), same)) {
    return failure("not a usable name for a part of a checkpoint, or there twice: " + name);
  }
  auto written = write_new_file(opened_.get(), name, bytes, temporary_ / name);
  if (!written) {
    abandon();
    return written;
  }
  manifest_.parts.push_back({name, bytes.size(), sum_of(bytes)});
  return {};
}

Result<fs::path> Writer::commit(const nlohmann::json& meta) {
  if (!opened_) return failure("this checkpoint was given up after an earlier failure");
  manifest_.meta = meta;
  const std::string name(kManifestName);
  const fs::path target = directory_ / directory_name(manifest_.step);
  auto done = write_new_file(opened_.get(), name, encode(manifest_), temporary_ / name);
  if (done) done = sync_directory(opened_.get(), temporary_);
  if (done) done = publish(target);
  if (!done) {
    abandon();
    return tl::unexpected(done.error());
  }
  return target;
}

Result<void> Writer::publish(const fs::path& target) {
  auto parent = open_directory(directory_);
  if (!parent) return tl::unexpected(parent.error());
  const auto rename = [&](unsigned flags) {
    return ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target.c_str(), flags) == 0;
  };
  bool renamed = rename(RENAME_NOREPLACE);
  // One of this step is there: exchanged, so that at no instant there is none. What was there goes
  // after the fsync. File systems without the flags (EINVAL) still rename where nothing is in the
  // way.
  const bool exchanged = !renamed && errno == EEXIST && rename(RENAME_EXCHANGE);
  if (!renamed && !exchanged && errno == EINVAL) renamed = rename(0);
  if (!renamed && !exchanged) return system_failure("cannot rename to", target);
  if (auto synced = sync_directory(parent->get(), directory_); !synced) {
    if (renamed) opened_ = Descriptor();  // nothing temporary is left to remove
    return synced;
  }
  if (exchanged) {
    abandon();
  } else {
    opened_ = Descriptor();
  }
  return {};
}

Result<fs::path> save(const fs::path& directory, std::uint64_t step, std::span<const Part> parts,
                      const nlohmann::json& meta, Retention retention) {
  auto writer = Writer::begin(directory, step);
  if (!writer) return tl::unexpected(writer.error());
  for (const auto& part : parts) {
    if (auto added = writer->add_part(part.name, part.bytes); !added) {
      return tl::unexpected(added.error());
    }
  }
  auto path = writer->commit(meta);
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
  const auto steps = steps_in(directory);
  if (!steps) return tl::unexpected(steps.error());
  Latest result;
  for (const auto step : *steps) {
    const fs::path path = directory / directory_name(step);
    auto checkpoint = examine(path);
    if (checkpoint && checkpoint->step != step) {
      checkpoint =
          tl::unexpected(Refusal{"the manifest says step " + std::to_string(checkpoint->step)});
    }
    if (checkpoint) {
      result.newest = std::move(*checkpoint);
      return result;
    }
    if (!checkpoint.error().torn) return failure(checkpoint.error().reason);
    result.torn.push_back(move_aside(directory, step, checkpoint.error().reason));
  }
  return result;
}

Result<std::string> read_part(const Checkpoint& checkpoint, std::string_view name) {
  for (const auto& part : checkpoint.parts) {
    if (part.name != name) continue;
    std::string bytes;
    bytes.reserve(part.bytes);
    const auto read = read_pieces(checkpoint.path / part.name,
                                  [&](std::string_view piece) { bytes.append(piece); });
    if (!read) return tl::unexpected(read.error());
    if (bytes.size() != part.bytes || sum_of(bytes) != part.xxh3_128) {
      return failure((checkpoint.path / part.name).string() + " changed since it was verified");
    }
    return bytes;
  }
  return failure(checkpoint.path.string() + " has no part " + std::string(name));
}

}  // namespace spotter::checkpoint
