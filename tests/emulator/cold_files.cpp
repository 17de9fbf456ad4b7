#include "tests/emulator/cold_files.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <utility>

#include "agent/io/child.hpp"
#include "agent/io/files.hpp"

namespace spotter::emulator {
namespace {

namespace fs = std::filesystem;

constexpr const char* program = "spotter-emulator-cold";

fs::path own_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

}  // namespace

Result<ColdFiles> ColdFiles::mount(const fs::path& directory, double time_scale) {
  const fs::path at = directory / "cold";
  ::umount2(at.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);  // a killed emulator's
  std::error_code failed;
  fs::remove_all(directory / "cold-volumes", failed);
  for (const char* folder : {"cold", "cold-volumes"}) fs::create_directories(directory / folder);
  const fs::path path = own_folder() / program;
  if (!fs::exists(path, failed)) return failure(path.string() + " is missing (scripts/build)");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failure("no pipe");
  const io::Descriptor reads(ends[0]);
  io::Descriptor writes(ends[1]);
  const io::Program run({path.string(), directory.string(), std::to_string(time_scale)});
  const pid_t parent = ::getpid();
  const pid_t server = io::fork_child([&] {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    ::setsid();
    if (::dup2(writes.get(), STDOUT_FILENO) < 0 || !io::die_with(parent, SIGTERM)) return 1;
    run.execute();
    return 127;
  });
  if (server < 0) return failure("cannot start " + path.string());
  ColdFiles files(directory, server);
  writes = io::Descriptor();
  char ready = 0;
  if (::read(reads.get(), &ready, 1) == 1) return files;
  return failure("FUSE cannot be used here (/dev/fuse; see emulator.log)");
}

ColdFiles::ColdFiles(ColdFiles&& other) noexcept
    : directory_(std::move(other.directory_)), server_(std::exchange(other.server_, -1)) {}

ColdFiles::~ColdFiles() {
  if (server_ <= 0) return;
  ::kill(server_, SIGTERM);
  while (::waitpid(server_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<void> ColdFiles::add(const VolumeId& volume, world::ColdReads::Of is) const {
  std::ofstream file(directory_ / "cold-volumes" / volume.str());
  if (file << to_text({is, boot_seconds()}) << std::flush) return {};
  return failure("cannot note that " + volume.str() + " is cold");
}

void ColdFiles::remove(const VolumeId& volume) const {
  std::error_code ignored;
  fs::remove(directory_ / "cold-volumes" / volume.str(), ignored);
}

std::optional<fs::path> ColdFiles::path_of(const VolumeId& volume) const {
  std::error_code ignored;
  if (!fs::exists(directory_ / "cold-volumes" / volume.str(), ignored)) return std::nullopt;
  return directory_ / "cold" / volume.str();
}

}  // namespace spotter::emulator
