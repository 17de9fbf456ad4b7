#include "agent/supervise/run_directory.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace spotter::supervise {
namespace {

Result<void> system_failure(const std::string& what) {
  return failure(what + ": " + std::strerror(errno));
}

bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

struct flock whole_file(int type) {
  struct flock lock {};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    number_ = other.release();
  }
  return *this;
}

void Descriptor::reset() {
  if (number_ >= 0) close(number_);
  number_ = -1;
}

Result<void> RunDirectory::write(std::string_view name, std::string_view content) const {
  const std::string target = file(name);
  const std::string beside = target + ".new";
  unlink(beside.c_str());
  const Descriptor written(
      open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!written) return system_failure("cannot make " + beside);
  if (!write_all(written.get(), content) || fsync(written.get()) != 0)
    return system_failure("cannot write " + beside);
  if (rename(beside.c_str(), target.c_str()) != 0) return system_failure("cannot make " + target);
  const Descriptor directory(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || fsync(directory.get()) != 0) return system_failure("cannot sync " + path_);
  return {};
}

Result<void> RunDirectory::remove(std::string_view name) const {
  if (unlink(file(name).c_str()) == 0 || errno == ENOENT) return {};
  return system_failure("cannot remove " + file(name));
}

Result<Descriptor> RunDirectory::open_lock() const {
  const std::string name = file("supervisor.lock");
  Descriptor lock(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return failure("cannot open " + name + ": " + std::strerror(errno));
  return lock;
}

bool try_lock(const Descriptor& lock) {
  auto want = whole_file(F_WRLCK);
  return fcntl(lock.get(), F_OFD_SETLK, &want) == 0;
}

bool is_locked(const Descriptor& lock) {
  auto want = whole_file(F_WRLCK);
  return fcntl(lock.get(), F_OFD_GETLK, &want) == 0 && want.l_type != F_UNLCK;
}

sockaddr_un socket_address(const Descriptor& directory, std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%.*s", directory.get(),
                static_cast<int>(name.size()), name.data());
  return address;
}

std::int64_t boottime_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace spotter::supervise
