#include "trainer/library/writer_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "trainer/library/names.hpp"

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

tl::unexpected<Error> taken(const std::filesystem::path& directory, const std::string& by) {
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
bool is_lost(int file, const std::filesystem::path& path) {
  struct flock range {};
  const int error = try_lock(file, range);
  struct stat ours {};
  struct stat named {};
  const bool same = ::fstat(file, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
                    ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
  return is_others(error) || error == EIO || !same;
}

// All claims but that one, of whichever version.
Result<std::vector<std::filesystem::path>> claims_beside(const std::filesystem::path& own) {
  const auto names = list_names(own.parent_path());
  if (!names) return tl::unexpected(names.error());
  std::vector<std::filesystem::path> others;
  for (const auto& name : *names)
    if (name.starts_with(kClaimName) && name != own.filename())
      others.push_back(own.parent_path() / name);
  return others;
}

// The member's name in front of a claim's words; empty: it is not there.
std::string member_of(const std::filesystem::path& claim) {
  std::string words;
  constexpr std::uint64_t longest = 4096;
  const auto read = read_pieces(
      claim, [&](std::string_view piece) { words += piece; }, nullptr, longest);
  return read ? words.substr(0, words.find(' ')) : "";
}

// Each claim is a file of its own: what is written late replaces none that came after it. The
// others are removed only by who has the lock after it has listed them: none is a later one's.
Result<void> make_claim(const std::filesystem::path& claim, const std::string& words, int file) {
  const auto directory = claim.parent_path();
  const auto opened = open_directory(directory);
  if (!opened) return tl::unexpected(opened.error());
  auto made = write_new_file(opened->get(), claim.filename(), words, claim);
  const auto others = made ? claims_beside(claim) : tl::unexpected(made.error());
  if (others && is_lost(file, directory / kLockName)) made = taken(directory, "another machine");
  if (!others) made = tl::unexpected(others.error());
  if (made) {
    for (const auto& other : *others)
      if (::unlink(other.c_str()) != 0 && errno != ENOENT && made)
        made = system_failure("cannot remove", other);
  }
  if (made) made = sync_directory(opened->get(), directory);
  if (!made) ::unlink(claim.c_str());
  return made;
}

}  // namespace

Result<WriterLock> WriterLock::take(const std::filesystem::path& directory) {
  if (auto made = make_directories(directory); !made) return tl::unexpected(made.error());
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
  std::filesystem::path claim;
  if (const std::string member = environment("SPOTTER_GANG_MEMBER"); !member.empty()) {
    const std::string unique = unique_words();
    claim = directory / (std::string(kClaimName) + "-" + unique);
    if (auto made = make_claim(claim, member + " " + unique + "\n", file.get()); !made)
      return tl::unexpected(made.error());
    // What the one before has written, and wakes to rename, is not there any more.
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

}  // namespace spotter::checkpoint
