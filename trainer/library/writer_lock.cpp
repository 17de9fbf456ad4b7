#include "trainer/library/writer_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <mutex>
#include <random>
#include <set>

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

}  // namespace

Result<WriterLock> WriterLock::take(const std::filesystem::path& directory) {
  if (auto made = make_directories(directory); !made) return tl::unexpected(made.error());
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) return system_failure("cannot look at", directory);
  const Key key{status.st_dev, status.st_ino};
  const std::scoped_lock lock(held_mutex);
  if (held().contains(key)) return taken(directory, "this very process");
  const auto path = directory / ".writer";
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file) return system_failure("cannot open", path);
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  if (::fcntl(file.get(), F_SETLK, &range) != 0 && (errno == EACCES || errno == EAGAIN)) {
    const bool known = ::fcntl(file.get(), F_GETLK, &range) == 0 && range.l_type != F_UNLCK;
    return taken(directory, known ? "process " + std::to_string(range.l_pid) : "another process");
  }
  Claim claim;
  if (const std::string member = environment("SPOTTER_GANG_MEMBER"); !member.empty()) {
    claim = {directory / ".writer-of-gang", member + " " + unique_words() + "\n"};
    if (auto said = replace_file(claim.file, claim.words); !said)
      return tl::unexpected(said.error());
  }
  held().insert(key);
  return WriterLock(std::move(file), key, std::move(claim));
}

Result<void> WriterLock::still_held() const {
  if (claim_.words.empty()) return {};
  std::string found;
  constexpr std::uint64_t longest = 4096;
  const auto read = read_pieces(
      claim_.file, [&](std::string_view piece) { found += piece; }, nullptr, longest);
  if (!read) return tl::unexpected(read.error());
  if (found == claim_.words) return {};
  return failure("another machine of the gang saves into " + claim_.file.parent_path().string() +
                 " since (" + found.substr(0, found.find(' ')) +
                 "): this one was paused for long, and its state is of an earlier round");
}

WriterLock::~WriterLock() {
  if (key_ == Key{}) return;
  const std::scoped_lock lock(held_mutex);
  held().erase(key_);
}

}  // namespace spotter::checkpoint
