#include "agent/host/share_use.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

fs::path registry() {
  if (const char* set = std::getenv("SPOTTER_MOUNTS"); set != nullptr && *set != 0) return set;
  if (::geteuid() == 0) return "/run/spotter-mounts";
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime != 0) return fs::path(runtime) / "spotter-mounts";
  return "/tmp/spotter-mounts-" + std::to_string(::geteuid());
}

// "/mnt/a" -> "%2Fmnt%2Fa": one name for each path.
std::string escaped(const std::string& path) {
  std::string name;
  for (const char each : path) {
    if (each == '/') {
      name += "%2F";
    } else if (each == '%') {
      name += "%25";
    } else {
      name += each;
    }
  }
  return name;
}

// A mount's device number is its own as long as it is there; the source tells one from the next.
std::string identity(const MountEntry& entry) {
  return std::to_string(major(entry.device)) + ":" + std::to_string(minor(entry.device)) + " " +
         entry.source + "\n";
}

}  // namespace

ShareUse::ShareUse(const fs::path& mount_point)
    : folder_(registry() / escaped(mount_name(mount_point).string())) {
  (void)io::make_directories(folder_ / "users", 0755);
  lock();
}

void ShareUse::lock() {
  lock_ = io::Descriptor(
      ::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  const auto until = std::chrono::steady_clock::now() + 1s;
  while (lock_ && ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > until) return;
    std::this_thread::sleep_for(20ms);
  }
}

void ShareUse::begin(const std::string& holder) {
  std::ofstream(folder_ / "users" / escaped(holder)).put('\n');
}

void ShareUse::end(const std::string& holder) {
  std::error_code ignored;
  fs::remove(folder_ / "users" / escaped(holder), ignored);
}

bool ShareUse::is_used() const {
  std::error_code error;
  return !fs::is_empty(folder_ / "users", error) && !error;
}

void ShareUse::is_ours(const MountEntry& entry) {
  (void)io::atomic_write(folder_ / "ours", identity(entry), 0644);
}

bool ShareUse::is_by_us(const MountEntry& entry) const {
  const auto text = io::read_file(folder_ / "ours", 8192);
  return text && *text == identity(entry);
}

void ShareUse::forget_mount() {
  std::error_code ignored;
  fs::remove(folder_ / "ours", ignored);
}

void cut_if_stuck(const MountEntry& entry) {
  if (entry.filesystem != "fuse.sshfs") return;
  const fs::path connection = "/sys/fs/fuse/connections/" + std::to_string(minor(entry.device));
  std::error_code error;
  for (int i = 0; i < 25; ++i) {
    if (!fs::exists(connection, error)) return;
    std::this_thread::sleep_for(20ms);
  }
  std::ofstream(connection / "abort") << "1";
}

}  // namespace spotter::act::host
