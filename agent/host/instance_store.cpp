#include "agent/host/instance_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/host/device.hpp"
#include "agent/host/inspect.hpp"
#include "agent/host/mounts.hpp"
#include "agent/host/tool.hpp"
#include "agent/io/beneath.hpp"
#include "agent/io/descriptor.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

constexpr const char* model = "Amazon EC2 NVMe Instance Storage";
constexpr const char* label = "spottercache";  // XFS has room for 12 letters

// Which one it has now. Every image has one of the two.
Result<std::string> give_filesystem(const fs::path& disk) {
  Error why;
  for (const std::string filesystem : {"xfs", "ext4"}) {
    const ToolRequest request{.argv = {"mkfs." + filesystem, "-q", "-L", label, disk.string()},
                              .environment = {{"LC_ALL", "C"}}};
    const auto made = run_tool(request, "xfsprogs, or e2fsprogs,");
    if (made && made->status == 0) return filesystem;
    why = made ? Error{request.argv[0] + ": " + last_words(*made), "format-failed"} : made.error();
    if (made) break;
  }
  return tl::unexpected(why);
}

// Which file system is on it, ours; else why it is not for us.
Result<std::string> claim(const fs::path& disk) {
  {  // nobody else has it mounted, nor a part of it, nor made a RAID of it
    const io::Descriptor alone(::open(disk.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    if (!alone) return fail("cache-absent", disk.string() + ": " + std::strerror(errno));
  }
  const auto found = inspect(disk);
  if (!found) return tl::unexpected<Error>(found.error());
  if (found->blank) return give_filesystem(disk);
  if (found->label == label && !found->filesystem.empty()) return found->filesystem;
  return fail("cache-absent", disk.string() + " holds " + found->detail + ": it is left alone");
}

// Each boot the user may have another number: what is there is the user's as well.
Result<void> make_folder(const fs::path& folder, const User& user) {
  const auto above = io::Beneath::open(folder.parent_path());
  const auto made = above ? above->make_folder(folder.filename(), 0755)
                          : tl::unexpected<std::error_code>(above.error());
  if (!made) return fail_errno(made.error(), "cannot make " + folder.string());
  const auto given =
      ::geteuid() == 0 ? made->give(user.uid, user.gid) : Result<void, std::error_code>();
  if (!given)
    return fail_errno(given.error(), "cannot give " + folder.string() + " to " + user.name);
  return {};
}

// Its log need not be kept: what was not whole when the machine stopped is fetched again.
Result<void> mount_cache(const fs::path& disk, const std::string& filesystem,
                         const fs::path& mount_point) {
  if (const auto made = io::make_directories(mount_point, 0755); !made)
    return fail_errno(made.error(), "cannot make " + mount_point.string());
  if (::mount(disk.c_str(), mount_point.c_str(), filesystem.c_str(),
              MS_NODEV | MS_NOSUID | MS_NOATIME, "") == 0)
    return {};
  return fail_errno(errno, "cannot mount " + disk.string() + " on " + mount_point.string(),
                    "mount-failed");
}

}  // namespace

std::vector<fs::path> instance_store_disks(const fs::path& devices, const fs::path& sysfs) {
  std::vector<std::pair<std::uint64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator at(sysfs / "block", error), end; !error && at != end;
       at.increment(error)) {
    const fs::path device = devices / at->path().filename();
    if (attribute_in_sysfs(at->path() / "device/model") != model) continue;
    std::error_code absent;
    if (!fs::is_block_file(device, absent)) continue;
    const std::string sectors = attribute_in_sysfs(at->path() / "size");
    found.emplace_back(std::strtoull(sectors.c_str(), nullptr, 10), device);
  }
  std::ranges::sort(found, [](const auto& one, const auto& other) {
    return one.first != other.first ? one.first > other.first : one.second < other.second;
  });
  std::vector<fs::path> disks;
  for (auto& [size, disk] : found) disks.push_back(std::move(disk));
  return disks;
}

Result<std::string> make_cache(const CacheRequest& request, const User& user) {
  const fs::path mount_point = request.folder.parent_path();
  // One agent at a time: it goes when the process ends, too.
  const io::Descriptor above(
      ::open(mount_point.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (above) (void)::flock(above.get(), LOCK_EX);
  if (const auto there = mount_at(mount_point)) {
    if (const auto made = make_folder(request.folder, user); !made)
      return tl::unexpected<Error>(made.error());
    return "the cache is " + request.folder.string() + ", on " + there->source;
  }
  // Mounted over them they were out of reach: of another job, or not sent yet.
  const auto under = io::Beneath::open(mount_point);
  const auto names = under ? under->names() : tl::unexpected(under.error());
  const bool absent = !names && names.error() == std::errc::no_such_file_or_directory;
  if (!absent && (!names || !names->empty()))
    return fail("cache-absent", "the cache stays on the storage: " + mount_point.string() +
                                    " has files already, which a disk mounted there would hide");
  const auto disks = instance_store_disks(request.devices, request.sysfs);
  Error why{"this machine has no instance store: the cache is on the storage", "cache-absent"};
  for (const fs::path& each : disks) {
    std::error_code gone;
    const fs::path disk = fs::canonical(each, gone);
    const auto filesystem = claim(disk);
    const auto mounted = filesystem ? mount_cache(disk, *filesystem, mount_point)
                                    : tl::unexpected<Error>(filesystem.error());
    const auto made = mounted ? make_folder(request.folder, user) : mounted;
    if (made) return "the cache is " + request.folder.string() + ", on " + disk.string();
    why = made.error();
  }
  return tl::unexpected(why);
}

}  // namespace spotter::act::host
