// Makes the mounts that show channels in mode `fast_file` to the trainer's user
// (agent/data/fast_file): by root, before the trainer's unit starts, which so needs no right to
// mount and is the same for every job.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {

struct Views {
  std::filesystem::path home;  // the trainer's place on the storage
  std::string folder;          // below it, of all channels; made with the user's rights
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
