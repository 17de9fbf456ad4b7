#include "tests/emulator/process_kind.hpp"

#include <signal.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>

#include "tests/emulator/process_tree.hpp"

namespace spotter::emulator {
namespace fs = std::filesystem;
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return std::string(name) + "=" + (value == nullptr || *value == 0 ? otherwise : value);
}

// Unpacks user data as cloud-init does: plain or with gzip.
std::string unpacked(const std::string& user_data) {
  if (!user_data.starts_with("\x1f\x8b")) return user_data;
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return {};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(user_data.data()));
  stream.avail_in = static_cast<uInt>(user_data.size());
  std::string script;
  for (int result = Z_OK; result == Z_OK;) {
    char piece[16384];
    stream.next_out = reinterpret_cast<Bytef*>(piece);
    stream.avail_out = sizeof piece;
    result = inflate(&stream, Z_NO_FLUSH);
    script.append(piece, sizeof piece - stream.avail_out);
  }
  inflateEnd(&stream);
  return script;
}

}  // namespace

Disks::Kind ProcessKind::disks() const {
  return namespaces_ ? Disks::Kind::LoopDevices : Disks::Kind::Folders;
}

fs::path ProcessKind::program(const fs::path& home) const { return home / "user-data"; }

Result<void> ProcessKind::furnish(const world::InstanceStarted& started,
                                  const fs::path& home) const {
  std::error_code failed;
  fs::remove_all(home / "run", failed);
  // In user mode a mount is a symlink in the place of mnt; the job makes it.
  if (fs::is_symlink(home / "mnt")) fs::remove(home / "mnt", failed);
  fs::create_directories(home / "run", failed);
  if (!failed) fs::create_directories(home / "devices" / "disk" / "by-id", failed);
  if (!failed && namespaces_) fs::create_directories(home / "mnt", failed);
  if (failed) return failure(home.string() + ": " + failed.message());
  const fs::path script = program(home);
  fs::remove(script, failed);
  std::ofstream(home / "console.log", std::ios::app).close();  // a place to mount it, too
  if (started.user_data.empty()) return {};
  std::ofstream(script) << unpacked(started.user_data);
  fs::permissions(script, fs::perms::owner_all, failed);
  if (failed) return failure(script.string() + ": " + failed.message());
  return {};
}

std::vector<std::string> ProcessKind::environment(const fs::path& home,
                                                  const std::string& metadata) const {
  return {variable("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
          variable("HOME", "/root"),
          "LANG=C.UTF-8",
          "SPOTTER_RUN=" + (home / "run").string(),
          "SPOTTER_DEVICES=" + (home / "devices").string(),
          "SPOTTER_MOUNT=" + (home / "mnt").string(),
          "SPOTTER_ROOT=" + (home / "root").string(),  // of what scripts/user-data installs
          namespaces_ ? "AWS_ENDPOINT_URL=http://127.0.0.1:4566"
                      : "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + metadata};
}

// SIGTERM to every process, as an operating system that shuts down sends it.
void ProcessKind::shut_down(pid_t init) const { signal_tree(init, SIGTERM); }

}  // namespace spotter::emulator
