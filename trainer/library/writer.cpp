#include "trainer/library/writer.hpp"

#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <random>

#include "trainer/library/checkpoint.hpp"

namespace spotter::checkpoint {
namespace {

// Record locks do not exclude writers in the same process.
std::mutex held_mutex;
std::set<std::pair<dev_t, ino_t>>& held() {
  static std::set<std::pair<dev_t, ino_t>> keys;
  return keys;
}

std::string unique_words() {
  std::random_device random;
  return std::to_string(random()) + "-" + std::to_string(random());
}

tl::unexpected<Error> taken(const fs::path& directory, const std::string& by) {
  return failure("another trainer saves into " + directory.string() + " (" + by +
                 "). Two would destroy one another's history: stop it, or give another directory.");
}

// 0: this process has the lock; else errno.
int try_lock(int file, struct flock& range) {
  range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return ::fcntl(file, F_SETLK, &range) == 0 ? 0 : errno;
}

bool is_others(int error) { return error == EACCES || error == EAGAIN; }

// Asks the file's server. It may have given the lock to another machine while this one was paused.
bool is_lost(int file, const fs::path& path) {
  struct flock range {};
  const int error = try_lock(file, range);
  struct stat ours {};
  struct stat named {};
  const bool same = ::fstat(file, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
                    ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
  return is_others(error) || error == EIO || !same;
}

// All claims but that one, of whichever version.
Result<std::vector<fs::path>> claims_beside(const fs::path& own) {
  const auto names = TRY(list_names(own.parent_path()));
  std::vector<fs::path> others;
  for (const auto& name : names)
    if (name.starts_with(kClaimName) && name != own.filename())
      others.push_back(own.parent_path() / name);
  return others;
}

// The member's name in front of a claim's words; empty: it is not there.
std::string member_of(const fs::path& claim) {
  constexpr std::uint64_t longest = 4096;
  const std::string words = read_whole(claim, longest).value_or("");
  return words.substr(0, words.find(' '));
}

// Each claim is a file of its own: what is written late replaces none that came after it. The
// others are removed only by who has the lock after it has listed them: none is a later one's.
Result<void> make_claim(const fs::path& claim, const std::string& words, int file) {
  const auto directory = claim.parent_path();
  const auto opened = TRY(open_directory(directory));
  auto made = write_new_file(opened.get(), claim.filename(), words, claim);
  const auto others = made ? claims_beside(claim) : tl::unexpected(made.error());
  if (others && is_lost(file, directory / kLockName)) made = taken(directory, "another machine");
  if (!others) made = tl::unexpected(others.error());
  if (made) {
    for (const auto& other : *others)
      if (::unlink(other.c_str()) != 0 && errno != ENOENT && made)
        made = system_failure("cannot remove", other);
  }
  if (made) made = sync_directory(opened.get(), directory);
  if (!made) ::unlink(claim.c_str());
  return made;
}

constexpr const char* kGivenUp = "this checkpoint was given up after an earlier failure";

// Unique in this process, even if an earlier directory could not be removed.
std::string temporary_name(std::uint64_t step) {
  static std::atomic<unsigned> writers{0};
  return std::string(kTemporary) + directory_name(step) + "-" + std::to_string(::getpid()) + "-" +
         std::to_string(writers++);
}

}  // namespace

Result<WriterLock> WriterLock::take(const fs::path& directory) {
  TRY(make_directories(directory));
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) return system_failure("cannot look at", directory);
  const Key key{status.st_dev, status.st_ino};
  const std::scoped_lock lock(held_mutex);
  if (held().contains(key)) return taken(directory, "this very process");
  const auto path = directory / kLockName;
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file) return system_failure("cannot open", path);
  struct flock range {};
  if (is_others(try_lock(file.get(), range))) {
    const bool known = ::fcntl(file.get(), F_GETLK, &range) == 0 && range.l_type != F_UNLCK;
    return taken(directory, known ? "process " + std::to_string(range.l_pid) : "another process");
  }
  fs::path claim;
  if (const std::string member = environment("SPOTTER_GANG_MEMBER"); !member.empty()) {
    const std::string unique = unique_words();
    claim = directory / (std::string(kClaimName) + "-" + unique);
    TRY(make_claim(claim, member + " " + unique + "\n", file.get()));
    // Removes what the writer before has written: it may still wake up to rename it.
    remove_leftovers(directory);
  }
  held().insert(key);
  return WriterLock(std::move(file), key, std::move(claim));
}

Result<void> WriterLock::still_held() const {
  if (claim_.empty()) return {};
  const auto directory = claim_.parent_path();
  // The plain name is that of an older version's claim, which removes no other.
  const std::string older = member_of(directory / kClaimName);
  if (older.empty() && !member_of(claim_).empty()) return {};
  std::string who = older;
  const auto others = claims_beside(claim_);
  if (who.empty() && others && !others->empty()) who = member_of(others->back());
  return failure("another machine of the gang saves into " + directory.string() + " since (" + who +
                 "): this one was paused for long, and its state is of an earlier round");
}

WriterLock::~WriterLock() {
  if (key_ == Key{}) return;
  const std::scoped_lock lock(held_mutex);
  held().erase(key_);
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
  remove_tree(temporary_);  // remove_leftovers() removes later what stays
}

Result<Writer> Writer::begin(const fs::path& directory, std::uint64_t step) {
  TRY(make_directories(directory));
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
  if (::flock(writer.opened_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return failure("another writer took " + temporary.string());
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

Result<void> Writer::add_parts(std::span<const Part> parts) {
  if (!opened_) return failure(kGivenUp);
  for (const auto& part : parts) {
    const auto same = [&](const Part& other) { return other.name == part.name; };
    TRY(check_name(part.name));
    if (std::count_if(parts.begin(), parts.end(), same) > 1)
      return failure("a checkpoint cannot have two parts of one name: " + part.name);
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
  TRY(may_replace(target));
  auto parent = TRY(open_directory(directory_));
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
  if (auto synced = sync_directory(parent.get(), directory_); !synced) {
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
