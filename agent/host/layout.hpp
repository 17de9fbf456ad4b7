// What Spotter keeps on a mounted volume: `.spotter/volume.json`, and the user's directories.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "agent/host/failure.hpp"
#include "agent/host/mount.hpp"
#include "agent/host/own.hpp"
#include "agent/host/user.hpp"

namespace spotter::act::host {

struct VolumeRecord {
  std::string volume;
  std::string user;
  uid_t uid = 0;
  gid_t gid = 0;
  bool present = false;  // false: missing or damaged
};

// Of a volume: what others than root wrote there is not believed. Kinds: those of fail_errno,
// "newer-format".
Outcome<VolumeRecord> read_volume_record(const std::filesystem::path& mount_point);

// `.spotter`, the directories and the record, in this order; files of the recorded uid are given to
// the user's present one first. On a volume the root directory and `.spotter` are root's
// afterwards, and nobody else can move `.spotter` away. Safe to repeat after a kill at any line.
// Fills in `mounted`. Kinds: those of read_volume_record, "layout-unusable", "too-many-files",
// "bad-request".
Outcome<void> ensure_layout(const io::Beneath& root, const MountRequest& request, const User& user,
                            Mounted& mounted);

// The symbolic link `request.link` to `request.container`. Another link that stands there is
// replaced; anything else is somebody's. Kinds: "layout-unusable", those of fail_errno.
Outcome<void> ensure_link(const MountRequest& request);

// The user's own folder in `at`, opened; one that exists is left to its owner. Made as the user; as
// root, and given to the user, only where the user may not. Fails with the errno.
io::Expected<io::Beneath> make_for(const io::Beneath& at, const std::string& name,
                                   const User& user);

// Of a job on a share, `home`, that another image wrote, whose trainer's user had another number:
// is given to the user's present one. The record there is the trainer's own, and proves nothing but
// that its owner wrote it: it has to name this user and the number that owns it, the folder has to
// be that owner's, too, and never root's; of what lies below only that owner's files are given
// away, and none that has another name elsewhere. Else nothing is done. Kinds: those of fail_errno,
// "too-many-files".
Outcome<void> take_over(const io::Beneath& home, const User& user);

}  // namespace spotter::act::host
