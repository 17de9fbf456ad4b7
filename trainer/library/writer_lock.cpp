#include "trainer/library/writer_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <mutex>
#include <set>

namespace spotter::checkpoint {

namespace {

// Record locks do not exclude writers in the same process.
std::mutex held_mutex;
std::set<std::pair<dev_t, ino_t>>& held() {
  static std::set<std::pair<dev_t, ino_t>> keys;
  return keys;
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
  held().insert(key);
  return WriterLock(std::move(file), key);
}

WriterLock::~WriterLock() {
  if (key_ == Key{}) return;
  const std::scoped_lock lock(held_mutex);
  held().erase(key_);
}

}  // namespace spotter::checkpoint
