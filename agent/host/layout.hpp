// Lays out a mounted volume: `.spotter/volume.json`, and the user's directories.
#pragma once

#include "agent/host/mount.hpp"
#include "agent/host/records.hpp"

namespace spotter::act::host {

struct VolumeRecord {
  static constexpr std::string_view keys = "volume user uid! gid! -";
  std::string volume;
  std::string user;
  uid_t uid = 0;
  gid_t gid = 0;
  bool present = false;  // false: missing or damaged
};

// Reads the record of a volume; what others than root wrote there is not believed.
Result<VolumeRecord> read_volume_record(const fs::path& mount_point);

// `.spotter`, the user's directories and the record, in this order; files of the recorded uid are
// given to the user's present one first. On a volume the root directory and `.spotter` are root's
// afterwards, and nobody else can move `.spotter` away. Safe to repeat after a kill at any line.
// Fills in `mounted`.
Result<void> ensure_layout(const io::SafeDirectory& root, const std::string& volume,
                           const std::vector<std::string>& directories, const User& user,
                           Mounted& mounted);

// The symbolic link. Another one that stands there is replaced; anything else is somebody's.
Result<void> ensure_link(const fs::path& at, const fs::path& to);

// The user's own folder in `at`, opened; one that exists is left to its owner. Made as the user; as
// root, and given to the user, only where the user may not. An empty one of root's that is closed
// to the user is given, too: another machine has just made it, or was killed before it gave it.
// Fails with the errno.
Result<io::SafeDirectory, std::error_code> make_for(const io::SafeDirectory& at,
                                                    const std::string& name, const User& user,
                                                    mode_t mode = 0755);

// Gives the home of a job on a share to the user's present number, if another image wrote it and
// the trainer's user had another number there. The record there is the trainer's own, and proves
// nothing but that its owner wrote it: it has to name this user and the number that owns it, the
// folder has to be that owner's, too, and never root's; only that owner's files below it are given
// away, and none that has another name elsewhere. If that does not hold, nothing is done.
Result<void> take_over(const io::SafeDirectory& home, const User& user);

// Whether this Spotter may work on a storage: asked before anything is written there.

// Looks at the version of all that is kept in a home: the record of the storage, the ledger, the
// record of finished files, history, learning curve, and the newest checkpoint in each of
// `directories`. Fails for what a newer Spotter wrote; what is absent, damaged or cannot be read is
// its reader's to say.
Result<void> check_formats(const fs::path& home, const std::vector<std::string>& directories);

}  // namespace spotter::act::host
