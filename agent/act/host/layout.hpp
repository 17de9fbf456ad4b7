// What Spotter keeps on a mounted volume: `.spotter/volume.json`, and the user's directories.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "agent/act/host/failure.hpp"
#include "agent/act/host/mount.hpp"
#include "agent/act/host/user.hpp"

namespace spotter::act::host {

struct VolumeRecord {
  std::string volume;
  std::string user;
  uid_t uid = 0;
  gid_t gid = 0;
  bool present = false;  // false: missing or damaged
};

// Kinds: those of fail_errno, "newer-format".
Outcome<VolumeRecord> read_volume_record(const std::filesystem::path& mount_point);

// `.spotter`, the directories and the record, in this order; files of the recorded uid are given to
// the user's present one first. Safe to repeat after a kill at any line. Fills in `mounted`. Kinds:
// those of read_volume_record, "layout-unusable", "too-many-files", "bad-request".
Outcome<void> ensure_layout(const MountRequest& request, const User& user, Mounted& mounted);

// The symbolic link `request.link` to `request.container`. Another link that stands there is
// replaced; anything else is somebody's. Kinds: "layout-unusable", those of fail_errno.
Outcome<void> ensure_link(const MountRequest& request);

// Gives what belongs to `from` below `directory` to `to`: never follows a symlink, never leaves the
// file system, skips `.spotter` at the top. Answers how many.
struct Owner {
  uid_t uid;
  gid_t gid;
};
Outcome<std::uint64_t> give_files(const std::filesystem::path& directory, Owner from, Owner to);

}  // namespace spotter::act::host
