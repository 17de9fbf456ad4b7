#include "tests/emulator/directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "agent/io/files.hpp"
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
  for (const char* name : {"emulator.json", "credentials"})
    if (!failed) fs::remove(absolute / name, failed);
  if (failed) return failure("cannot clear " + absolute.string() + ": " + failed.message());
  if (auto cleared = directory.clear(); !cleared) return tl::unexpected(cleared.error());
  return directory;
}

Result<void> Directory::clear() const {
  remove_control_groups(path_);
  std::error_code failed;
  for (const char* name : {"volumes", "snapshots", "instances", "batch"})
    if (!failed) fs::remove_all(path_ / name, failed);
  for (const char* name : {"volumes", "snapshots", "batch"})
    if (!failed) fs::create_directory(path_ / name, failed);
  if (failed) return failure("cannot clear " + path_.string() + ": " + failed.message());
  return {};
}

Directory::Directory(Directory&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

Directory::~Directory() {
  if (lock_ < 0) return;
  std::error_code ignored;
  fs::remove(path_ / "emulator.json", ignored);
  fs::remove(path_ / "credentials", ignored);
  ::close(lock_);
}

// A new file, so that nobody holds it open from before.
Result<void> Directory::publish(const Keys& keys) const {
  const fs::path path = path_ / "credentials";
  const std::string text = "[default]\naws_access_key_id = " + keys.access_key +
                           "\naws_secret_access_key = " + keys.secret + "\n";
  const io::Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return failure(path.string() + ": " + std::strerror(errno));
  return {};
}

Result<void> Directory::announce(const Announcement& announcement) const {
  const nlohmann::json json = {
      {"api", announcement.api},       {"metadata", announcement.metadata},
      {"mode", announcement.mode},     {"certificate", announcement.certificate},
      {"region", announcement.region}, {"pid", announcement.pid}};
  const fs::path partial = path_ / ".emulator.json.partial";
  std::ofstream(partial) << json.dump(2) << '\n';
  std::error_code failed;
  fs::rename(partial, path_ / "emulator.json", failed);
  if (failed) return failure((path_ / "emulator.json").string() + ": " + failed.message());
  return {};
}

fs::path default_directory() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return fs::path(state) / "spotter-emulator";
  // Programs of instances may be another user's, who reaches nothing in root's home.
  if (::geteuid() == 0) return "/var/lib/spotter-emulator";
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return fs::path(home) / ".local/state/spotter-emulator";
}

fs::path nearest_directory() {
  std::error_code ignored;
  return fs::exists("emulator.json", ignored) ? fs::path(".") : default_directory();
}

Result<Announcement> read_announcement(const fs::path& directory) {
  const fs::path path = directory / "emulator.json";
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) return failure("no emulator is announced in " + path.string());
  return Announcement{json.value("api", ""),    json.value("metadata", ""),
                      json.value("mode", ""),   json.value("certificate", ""),
                      json.value("region", ""), json.value("pid", 0)};
}

Result<Keys> read_keys(const fs::path& directory) {
  const fs::path path = directory / "credentials";
  std::ifstream file(path);
  Keys keys;
  std::string name, equals, value;
  for (std::string line; std::getline(file, line);) {
    std::istringstream(line) >> name >> equals >> value;
    if (name == "aws_access_key_id") keys.access_key = value;
    if (name == "aws_secret_access_key") keys.secret = value;
  }
  if (!keys.secret.empty()) return keys;
  return failure("no keys are to be read in " + path.string() +
                 ": give --directory, as whoever has started the emulator");
}

}  // namespace spotter::emulator
