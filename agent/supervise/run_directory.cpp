#include "agent/supervise/run_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>

#include "agent/io/files.hpp"

namespace spotter::supervise {
namespace {

Result<void> system_failure(const std::string& what) {
  return failure(what + ": " + std::strerror(errno));
}

constexpr mode_t others = 077;
constexpr mode_t others_writing = 022;

bool is_for_others(std::string_view name) {
  constexpr std::string_view names[] = {"status.json",     "notice",   "pace",
                                        "parameters.json", "channels", "values"};
  return std::ranges::find(names, name) != std::end(names);
}

// Only we can change the directory, so a name cannot become another file in between.
void take_from_others(int directory) {
  DIR* entries = fdopendir(dup(directory));
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) {
    struct stat status {};
    const bool plain = fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISREG(status.st_mode) && status.st_uid == geteuid();
    if (plain && (status.st_mode & others) != 0 && !is_for_others(entry->d_name))
      fchmodat(directory, entry->d_name, status.st_mode & 07777 & ~others, 0);
  }
  closedir(entries);
}

struct flock whole_file(int type) {
  struct flock lock {};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<void> RunDirectory::make_ours() const {
  const Descriptor here(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!here || fstat(here.get(), &status) != 0) return system_failure("cannot open " + path_);
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return failure(path_ + " belongs to another user (uid " + std::to_string(status.st_uid) +
                   "), who could replace every file in it; set SPOTTER_RUN");
  if ((status.st_mode & others_writing) != 0 &&
      fchmod(here.get(), status.st_mode & 07777 & ~others_writing) != 0)
    return system_failure(path_ + " is writable for others, and its mode cannot be changed");
  take_from_others(here.get());
  return {};
}

Result<void> RunDirectory::write(std::string_view name, std::string_view content) const {
  const auto done = io::atomic_write(file(name), content, private_mode);
  if (!done) return failure("cannot write " + file(name) + ": " + done.error().message());
  return {};
}

Result<void> RunDirectory::replace(std::string_view name, std::string_view content) const {
  const auto done = io::replace_file(file(name), content, private_mode);
  if (!done) return failure("cannot write " + file(name) + ": " + done.error().message());
  return {};
}

Result<void> RunDirectory::remove(std::string_view name) const {
  if (unlink(file(name).c_str()) == 0 || errno == ENOENT) return {};
  return system_failure("cannot remove " + file(name));
}

Result<Descriptor> RunDirectory::open_file(std::string_view name, int flags) const {
  const std::string path = file(name);
  const int number =
      open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, private_mode);
  Descriptor opened(number);
  struct stat status {};
  if (!opened || fstat(opened.get(), &status) != 0)
    return failure("cannot open " + path + ": " + std::strerror(errno));
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1 || status.st_uid != geteuid())
    return failure(path + " is not a plain file of our own; remove it");
  if ((status.st_mode & others) != 0 && fchmod(opened.get(), status.st_mode & 07777 & ~others) != 0)
    return failure("cannot keep others from " + path + ": " + std::strerror(errno));
  return opened;
}

Result<Descriptor> RunDirectory::take_agents_lock() const {
  auto lock = open_file("agent.lock", O_RDWR | O_CREAT);
  if (lock && flock(lock->get(), LOCK_EX | LOCK_NB) != 0) lock->close();
  return lock;
}

Result<Descriptor> RunDirectory::open_lock() const {
  return open_file("supervisor.lock", O_RDWR | O_CREAT);
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

bool send_datagram(const std::string& path, const std::string& text,
                   std::chrono::milliseconds patience) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return true;  // no agent is to hear it
  const Descriptor here(open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const Descriptor sender(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = patience.count() / 1000, .tv_usec = patience.count() % 1000 * 1000};
  setsockopt(sender.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const auto address = socket_address(here, path.substr(slash + 1));
  return sendto(sender.get(), text.data(), text.size(), MSG_NOSIGNAL,
                reinterpret_cast<const sockaddr*>(&address), sizeof address) >= 0;
}

std::int64_t boottime_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

}  // namespace spotter::supervise
