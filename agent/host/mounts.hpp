// Lists the kernel's mounts: /proc/self/mountinfo (proc(5)).
#pragma once

#include <optional>

#include "agent/io/files.hpp"

namespace spotter::act::host {

struct MountEntry {
  dev_t device = 0;
  std::string mount_point;
  std::string filesystem;
  std::string source;
  bool read_only = false;
};

std::vector<MountEntry> mounts(const fs::path& mountinfo = "/proc/self/mountinfo");

// The topmost mount at exactly this place, symlinks above it resolved.
std::optional<MountEntry> mount_at(const fs::path& mount_point);

// The same, absolute and with the parent's symlinks resolved, as mountinfo names it.
fs::path mount_name(const fs::path& mount_point);

// The processes that use the file system: "python3 (pid 71) has /mnt/x/log.txt open"; at most
// `limit`. Those that hold it mounted in another mount namespace count, too.
std::vector<std::string> holders(dev_t device, std::size_t limit);

// The mounts that show a channel in mode `fast_file` (agent/data/fast_file).

// Unmounts each of them at this place or below it, the topmost first, whoever uses it, and whether
// or not its process still runs. Returns their number. `below` leads from there through no links,
// which are the trainer's.
std::size_t detach_views(const fs::path& home, const fs::path& below = {});

// Makes the mounts that show channels in mode `fast_file` to the trainer's user
// (agent/data/fast_file): by root, before the trainer's unit starts, which so needs no right to
// mount and is the same for every job.

struct Views {
  fs::path home;       // the trainer's place on the storage
  std::string folder;  // below it, of all channels; made with the user's rights
  std::string user;
  std::vector<std::string> names;
};

// Mounts home/folder/NAME, for each name in turn: read-only, nosuid, nodev, of that user alone.
// What the descriptor's holder answers is what is there; once none holds it, each use fails
// (ENOTCONN). No link below `home` is followed.
Result<std::vector<io::Descriptor>> mount_views(const Views& views);

// A view that was mounted for this process's trainer, as the supervisor hands it on.
struct MountedView {
  int descriptor = -1;  // of /dev/fuse
  std::string channel;
};

// By $SPOTTER_VIEWS: "3:train 4:valid".
std::vector<MountedView> mounted_views();

}  // namespace spotter::act::host
