// Lists the kernel's mounts: /proc/self/mountinfo (proc(5)).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace spotter::act::host {

struct MountEntry {
  dev_t device = 0;
  std::string mount_point;
  std::string filesystem;
  std::string source;
  bool read_only = false;
};

std::vector<MountEntry> mounts(const std::filesystem::path& mountinfo = "/proc/self/mountinfo");

// The topmost mount at exactly this place, symlinks above it resolved.
std::optional<MountEntry> mount_at(const std::filesystem::path& mount_point);

// The same, absolute and with the parent's symlinks resolved, as mountinfo names it.
std::filesystem::path mount_name(const std::filesystem::path& mount_point);

// The processes that use the file system: "python3 (pid 71) has /mnt/x/log.txt open"; at most
// `limit`. Those that hold it mounted in another mount namespace count, too.
std::vector<std::string> holders(dev_t device, std::size_t limit);

// The mounts that show a channel in mode `fast_file` (agent/data/fast_file).

// Unmounts each of them at this place or below it, the topmost first, whoever uses it, and whether
// or not its process still runs. Returns their number.
std::size_t detach_views(const std::filesystem::path& place);

}  // namespace spotter::act::host
