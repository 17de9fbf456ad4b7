// Who uses a mount on this machine, and was it us who mounted it? Kept beside the machine's other
// runtime state, so that it is gone when the mounts are: $SPOTTER_MOUNTS, else
// /run/spotter-mounts, or for ordinary users $XDG_RUNTIME_DIR/spotter-mounts or
// /tmp/spotter-mounts-UID.
#pragma once

#include <filesystem>
#include <string>

#include "agent/host/mounts.hpp"
#include "agent/io/descriptor.hpp"

namespace spotter::act::host {

// Holds the mount point's lock until it is destroyed, or until unlock(). A process that hangs with
// the lock must not hang others: after a second it is done without.
class ShareUse {
 public:
  explicit ShareUse(const std::filesystem::path& mount_point);

  void lock();
  void unlock() { lock_.close(); }

  void begin(const std::string& holder);
  void end(const std::string& holder);
  bool is_used() const;
  void is_ours(const MountEntry& entry);
  bool is_by_us(const MountEntry& entry) const;  // this very mount
  void forget_mount();

 private:
  std::filesystem::path folder_;
  io::Descriptor lock_;
};

// After a lazy unmount of sshfs somebody may still wait for its server, in the kernel, where not
// even SIGKILL ends it: the connection is cut, and the wait with it (fuse's `abort`,
// https://docs.kernel.org/filesystems/fuse.html). Others: nothing.
void cut_if_stuck(const MountEntry& entry);

}  // namespace spotter::act::host
