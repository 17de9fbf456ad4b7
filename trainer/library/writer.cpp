#include "trainer/library/writer.hpp"

#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "trainer/library/names.hpp"
#include "trainer/library/refusal.hpp"
#include "trainer/library/trees.hpp"

namespace spotter::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* kGivenUp = "this checkpoint was given up after an earlier failure";

// Unique in this process, even if an earlier directory could not be removed.
std::string temporary_name(std::uint64_t step) {
  static std::atomic<unsigned> writers{0};
  return std::string(kTemporary) + directory_name(step) + "-" + std::to_string(::getpid()) + "-" +
         std::to_string(writers++);
}

}  // namespace

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
  remove_tree(temporary_);  // remove_leftovers() removes later what stays
}

Result<Writer> Writer::begin(const fs::path& directory, std::uint64_t step) {
  if (auto made = make_directories(directory); !made) return tl::unexpected(made.error());
  remove_leftovers(directory);
  const fs::path temporary = directory / temporary_name(step);
  if (::mkdir(temporary.c_str(), 0755) != 0) return system_failure("cannot create", temporary);
  auto opened = open_directory(temporary);
  if (!opened) {
    ::rmdir(temporary.c_str());
    return tl::unexpected(opened.error());
  }
  Writer writer(directory, temporary, step, std::move(*opened));
  // Without locks (some network file systems) two writers must not start at the same time.
  if (::flock(writer.opened_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return failure("another writer took " + temporary.string());
  }
  return writer;
}

Result<void> Writer::check_name(const std::string& name) const {
  if (!opened_) return failure(kGivenUp);
  const auto same = [&](const PartEntry& part) { return part.name == name; };
  if (is_part_name(name) && std::none_of(manifest_.parts.begin(), manifest_.parts.end(), same)) {
    return {};
  }
  return failure("not a usable name for a part of a checkpoint, or there twice: " + name);
}

Result<void> Writer::add_part(const std::string& name, std::string_view bytes) {
  const Part part{name, bytes};
  return add_parts({&part, 1});
}

Result<void> Writer::add_parts(std::span<const Part> parts) {
  if (!opened_) return failure(kGivenUp);
  for (const auto& part : parts) {
    const auto same = [&](const Part& other) { return other.name == part.name; };
    auto usable = check_name(part.name);
    if (!usable) return usable;
    if (std::count_if(parts.begin(), parts.end(), same) > 1) {
      return failure("a checkpoint cannot have two parts of one name: " + part.name);
    }
  }
  auto written = write_parts(opened_.get(), temporary_, parts);
  if (!written) {
    abandon();
    return tl::unexpected(written.error());
  }
  for (auto& entry : *written) manifest_.parts.push_back(std::move(entry));
  return {};
}

bool Writer::link_part(const PartEntry& entry, const fs::path& checkpoint) {
  if (!check_name(entry.name)) return false;
  const fs::path old = checkpoint / entry.name;
  if (::linkat(AT_FDCWD, old.c_str(), opened_.get(), entry.name.c_str(), 0) != 0) return false;
  struct stat status {};
  const bool right =
      ::fstatat(opened_.get(), entry.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) == entry.bytes;
  if (!right) {
    ::unlinkat(opened_.get(), entry.name.c_str(), 0);
    return false;
  }
  manifest_.parts.push_back(entry);
  return true;
}

Result<fs::path> Writer::commit(const nlohmann::json& meta, std::optional<double> metric) {
  if (!opened_) return failure(kGivenUp);
  manifest_.meta = meta;
  manifest_.metric = metric;
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

// A checkpoint of the same step may be replaced only if it is ours, complete or torn.
Result<void> Writer::may_replace(const fs::path& target) {
  const auto before = read_manifest(target);
  if (before || before.error().why == Refusal::Why::Torn) return {};
  return failure("cannot replace " + target.string() + ": " + before.error().reason);
}

Result<void> Writer::publish(const fs::path& target) {
  if (auto may = may_replace(target); !may) return may;
  auto parent = open_directory(directory_);
  if (!parent) return tl::unexpected(parent.error());
  const auto rename = [&](unsigned flags) {
    return ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target.c_str(), flags) == 0;
  };
  bool renamed = rename(RENAME_NOREPLACE);
  // One of this step exists: exchanges the two, so that there always is one, and removes the old
  // one after the fsync. File systems without these flags (EINVAL) can still rename if nothing
  // exists.
  const bool exchanged = !renamed && errno == EEXIST && rename(RENAME_EXCHANGE);
  if (!renamed && !exchanged && errno == EINVAL) renamed = rename(0);
  if (!renamed && !exchanged) return system_failure("cannot rename to", target);
  if (auto synced = sync_directory(parent->get(), directory_); !synced) {
    if (renamed) opened_ = Descriptor();  // no temporary directory is left
    return synced;
  }
  if (exchanged) {
    abandon();
  } else {
    opened_ = Descriptor();
  }
  return {};
}

}  // namespace spotter::checkpoint
