#include "agent/host/views.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "agent/aws/formats/s3.hpp"
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

// Made, opened and judged with the user's rights: on a share root may have none, and the server may
// show another number as the owner. A folder of somebody else is not covered.
Result<io::SafeDirectory> own_folder(const User& user, const std::filesystem::path& home,
                                     const std::string& below) {
  const AsUser as(user);
  const std::string name = (home / below).string();
  if (const auto made = io::make_directories(name, 0755); !made)
    return failure(name + ": " + made.error().message());
  const auto opened = io::SafeDirectory::open(home);
  if (!opened) return failure(home.string() + ": " + opened.error().message());
  auto at = opened->folder(below);
  if (!at) return failure(name + ": " + at.error().message());
  if (!at->may_change()) return failure(name + " is not " + user.name + "'s to change");
  return std::move(*at);
}

}  // namespace

Result<std::vector<io::Descriptor>> mount_views(const Views& views) {
  const auto user = find_user(views.user);
  if (!user) return tl::unexpected(user.error());
  std::vector<io::Descriptor> mounted;
  for (const std::string& name : views.names) {
    const std::string below = views.folder + "/" + name;
    detach_views(views.home / below);  // of an earlier start
    const auto at = own_folder(*user, views.home, below);
    if (!at) return tl::unexpected(at.error());
    auto device = mount_view(*at, name, *user);
    if (!device) return tl::unexpected(device.error());
    mounted.push_back(std::move(*device));
  }
  return mounted;
}

std::vector<MountedView> mounted_views() {
  const char* given = std::getenv("SPOTTER_VIEWS");
  std::istringstream words(given == nullptr ? "" : given);
  std::vector<MountedView> views;
  for (std::string word; words >> word;) {
    const auto colon = word.find(':');
    const auto number = wire::parse_count(word.substr(0, colon));
    if (colon != word.npos && number.value_or(0) > STDERR_FILENO)
      views.push_back({static_cast<int>(*number), word.substr(colon + 1)});
  }
  return views;
}

}  // namespace spotter::act::host
