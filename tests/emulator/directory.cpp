#include "tests/emulator/directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/emulator/control_group.hpp"
#include "tests/emulator/loop_device.hpp"

namespace spotter::emulator {
namespace fs = std::filesystem;

Result<Directory> Directory::open(const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  const fs::path absolute = fs::canonical(path, failed);
  if (failed) return failure(path.string() + ": " + failed.message());
  const fs::path lock_path = absolute / "emulator.lock";
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return failure(lock_path.string() + ": " + std::strerror(errno));
  Directory directory(absolute, lock);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(std::exchange(directory.lock_, -1));
    const auto other = read_announcement(absolute);
    return failure("another emulator serves " + absolute.string() +
                   (other ? ": process " + std::to_string(other->pid) + ", " + other->api : "") +
                   "; stop it with `spotter-emulator stop`, or take another folder");
  }
  const std::string in_use = clear_loop_devices(absolute);
  if (!in_use.empty())
    return failure("an earlier run left loop devices in use:" + in_use +
                   "; unmount them, or take another folder");
  remove_control_groups(absolute);
  for (const char* name : {"volumes", "snapshots", "instances", "batch", "emulator.json"})
    if (!failed) fs::remove_all(absolute / name, failed);
  if (failed) return failure("cannot clear " + absolute.string() + ": " + failed.message());
  return directory;
}

Directory::Directory(Directory&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

Directory::~Directory() {
  if (lock_ < 0) return;
  std::error_code ignored;
  fs::remove(path_ / "emulator.json", ignored);
  ::close(lock_);
}

Result<void> Directory::announce(const Announcement& announcement) const {
  const nlohmann::json json = {{"api", announcement.api},
                               {"metadata", announcement.metadata},
                               {"mode", announcement.mode},
                               {"certificate", announcement.certificate},
                               {"pid", announcement.pid}};
  const fs::path partial = path_ / ".emulator.json.partial";
  std::ofstream(partial) << json.dump(2) << '\n';
  std::error_code failed;
  fs::rename(partial, path_ / "emulator.json", failed);
  if (failed) return failure((path_ / "emulator.json").string() + ": " + failed.message());
  return {};
}

Result<Announcement> read_announcement(const fs::path& directory) {
  const fs::path path = directory / "emulator.json";
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) return failure("no emulator is announced in " + path.string());
  return Announcement{json.value("api", ""), json.value("metadata", ""), json.value("mode", ""),
                      json.value("certificate", ""), json.value("pid", 0)};
}

}  // namespace spotter::emulator
