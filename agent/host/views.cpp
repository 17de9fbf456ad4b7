#include "agent/host/views.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/host/mounts.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/safe_directory.hpp"

namespace spotter::act::host {
namespace {

Result<io::Descriptor> mount_view(const io::SafeDirectory& at, const std::string& name,
                                  const User& user) {
  io::Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device)
    return failure(std::string("mode fast_file needs /dev/fuse: ") + std::strerror(errno) +
                   " (modprobe fuse)");
  const std::string options = "fd=" + std::to_string(device.get()) +
                              ",rootmode=40000,user_id=" + std::to_string(user.uid) +
                              ",group_id=" + std::to_string(user.gid) + ",default_permissions";
  const std::string place = "/proc/self/fd/" + std::to_string(at.descriptor());
  constexpr unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME;
  if (::mount(("spotter:" + name).c_str(), place.c_str(), "fuse.spotter", flags, options.c_str()) !=
      0)
    return failure("the channel " + name + " cannot be mounted: " + std::strerror(errno));
  return device;
}

}  // namespace

Result<std::vector<io::Descriptor>> mount_views(const Views& views) {
  const auto user = find_user(views.user);
  if (!user) return tl::unexpected(user.error());
  const auto home = io::SafeDirectory::open(views.home);
  if (!home) return failure(views.home.string() + ": " + home.error().message());
  std::vector<io::Descriptor> mounted;
  for (const std::string& name : views.names) {
    const std::string below = views.folder + "/" + name;
    detach_views(views.home / below);  // of an earlier start
    {
      const AsUser as(*user);
      if (const auto made = io::make_directories(views.home / below, 0755); !made)
        return failure((views.home / below).string() + ": " + made.error().message());
    }
    const auto at = home->folder(below);
    if (!at) return failure((views.home / below).string() + ": " + at.error().message());
    // The trainer may have put a link in the place of its home: nobody else's folder is covered.
    const auto status = at->status();
    if (!status || status->st_uid != user->uid)
      return failure((views.home / below).string() + " is not " + views.user + "'s");
    auto device = mount_view(*at, name, *user);
    if (!device) return tl::unexpected(device.error());
    mounted.push_back(std::move(*device));
  }
  return mounted;
}

}  // namespace spotter::act::host
