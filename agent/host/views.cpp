#include "agent/host/views.hpp"

#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "agent/host/mounts.hpp"
#include "agent/host/tool.hpp"

namespace spotter::act::host {

std::size_t detach_views(const std::filesystem::path& place) {
  const std::string name = mount_name(place);
  auto entries = mounts();
  std::erase_if(entries, [&](const MountEntry& entry) {
    return entry.filesystem != "fuse.spotter" ||
           (entry.mount_point != name && !entry.mount_point.starts_with(name + "/"));
  });
  std::reverse(entries.begin(), entries.end());
  for (const auto& entry : entries) {
    const auto& point = entry.mount_point;
    if (::umount2(point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) continue;
    // What a user has mounted the user may unmount, with this program's help.
    if (errno == EPERM) (void)run_tool({{"fusermount3", "-u", "-z", "-q", "--", point}}, "fuse3");
  }
  return entries.size();
}

}  // namespace spotter::act::host
