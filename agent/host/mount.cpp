#include "agent/host/mount.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "agent/host/layout.hpp"
#include "agent/host/mounts.hpp"

namespace spotter::act::host {
namespace {

// The disk that is mounted, and how.
struct Disk {
  fs::path device;
  std::string filesystem;
  fs::path mount_point;
  bool read_only = false;
  bool as_it_is = false;  // its log is not replayed
};

// A device that is a directory is mounted by a symlink. Answers whether it was there already.
Result<bool> link_directory(const fs::path& device, const fs::path& mount_point) {
  std::error_code error;
  const auto target = fs::canonical(device, error);
  if (error) return fail_errno(error, "cannot resolve " + device.string(), "device-absent");
  if (fs::is_symlink(fs::symlink_status(mount_point, error))) {
    if (fs::read_symlink(mount_point, error) == target) return true;
    return fail("mount-point-busy",
                mount_point.string() + " leads somewhere else; unmount it first");
  }
  if (fs::exists(mount_point, error) && !fs::remove(mount_point, error))
    return fail("mount-point-busy", mount_point.string() + " exists and is not an empty directory");
  fs::create_symlink(target, mount_point, error);
  if (error) return fail_errno(error, "cannot make " + mount_point.string(), "mount-failed");
  return false;
}

Result<void> check_content(const Disk& disk) {
  const auto found = TRY(inspect(disk.device));
  if (found.filesystem == disk.filesystem) return {};
  const auto device = disk.device.string();
  if (found.blank)
    return fail("not-formatted", device + " is blank: there is no file system to mount");
  if (!found.filesystem.empty()) {
    return fail("filesystem-mismatch", device + " holds " + found.detail + ", but job.yaml says " +
                                           disk.filesystem + "; set storage.ebs.filesystem to " +
                                           found.filesystem + " if this is the right volume");
  }
  return fail("foreign-signature", device + " holds " + found.detail +
                                       "; Spotter does not touch it. Is this the right volume?");
}

// XFS has no such step: its mount replays the log.
// https://man7.org/linux/man-pages/man8/e2fsck.8.html
Result<void> repair_ext4(const fs::path& device) {
  const ToolRequest request{.argv = {"e2fsck", "-p", device.string()},
                            .environment = {{"LC_ALL", "C"}}};
  const auto result = TRY(run_tool(request, "e2fsprogs"));
  constexpr int corrected = 1;
  if (result.status <= corrected) return {};
  return fail("filesystem-damaged", "e2fsck -p cannot mend " + device.string() + " by itself: " +
                                        last_words(result) + "; run e2fsck on it by hand");
}

tl::unexpected<Error> disk_failure(int error, const Disk& disk) {
  const auto device = disk.device.string();
  const auto what = "cannot mount " + device + " on " + disk.mount_point.string();
  switch (error) {
    case EUCLEAN:
    case EBADMSG:
      return fail("filesystem-damaged",
                  device + " has a damaged file system (structure needs cleaning); run " +
                      (disk.filesystem == "xfs" ? "xfs_repair" : "e2fsck") + " on it by hand");
    case EBUSY:
      return fail("device-busy", what + ": the device is in use");
    case EACCES:
    case EROFS:
      return fail("device-read-only", what + ": the device is read-only");
    case ENODEV:
      return fail("mount-failed", what + ": this kernel does not know " + disk.filesystem);
    case EINVAL:
      return fail("mount-failed", what +
                                      ": bad superblock, or made with features that this kernel "
                                      "does not know; see the kernel's log");
    case ENOENT:
      return fail("device-absent", what + ": the disk is gone");
    default:
      return fail_errno(error, what, "mount-failed");
  }
}

unsigned long flags_of(const Disk& disk) {
  return MS_NODEV | MS_NOSUID | MS_NOATIME |
         (disk.read_only ? static_cast<unsigned long>(MS_RDONLY) : 0UL);
}

// https://man7.org/linux/man-pages/man5/xfs.5.html, ext4.5.html
const char* options_of(const Disk& disk) {
  if (disk.filesystem == "xfs") return disk.as_it_is ? "nouuid,norecovery" : "nouuid";
  return disk.as_it_is ? "noload" : "";
}

// The copy is verified: from now on it may be written to.
Result<void> make_writable(const Disk& disk, const MountEntry& there) {
  if (disk.read_only || !there.read_only) return {};
  if (::mount(nullptr, disk.mount_point.c_str(), nullptr, MS_REMOUNT | flags_of(disk),
              options_of(disk)) != 0) {
    return disk_failure(errno, disk);
  }
  return {};
}

// False: free to mount. True: mounted there already from this device.
Result<bool> already_mounted(const Disk& disk, dev_t device) {
  const auto there = mount_at(disk.mount_point);
  if (there && there->device == device) {
    TRY(make_writable(disk, *there));
    return true;
  }
  if (there) {
    return fail("mount-point-busy", there->source + " is mounted on " + disk.mount_point.string() +
                                        " already; unmount it first");
  }
  for (const auto& entry : mounts()) {
    if (entry.device == device) {
      return fail("device-busy", disk.device.string() + " is mounted on " + entry.mount_point +
                                     " already; unmount it there");
    }
  }
  return false;
}

Result<void> attach(const Disk& disk) {
  TRY(check_content(disk));
  TRY(make_directories(disk.mount_point, "mount-failed"));
  if (disk.filesystem == "ext4" && !disk.read_only) TRY(repair_ext4(disk.device));
  if (::mount(disk.device.c_str(), disk.mount_point.c_str(), disk.filesystem.c_str(),
              flags_of(disk), options_of(disk)) != 0) {
    return disk_failure(errno, disk);
  }
  return {};
}

Result<bool> mount_block(const Disk& disk) {
  struct stat status {};
  if (::stat(disk.device.c_str(), &status) != 0 || !S_ISBLK(status.st_mode))
    return fail("device-absent", disk.device.string() + " is no block device");
  const auto already = already_mounted(disk, status.st_rdev);
  if (!already || *already) return already;
  TRY(attach(disk));
  return false;
}

Result<bool> mount_directory(const Disk& disk) {
  TRY(check_content(disk));
  TRY(or_fail(io::make_directories(mount_name(disk.mount_point).parent_path(), 0755),
              "cannot make the parent of the mount point"));
  return link_directory(disk.device, mount_name(disk.mount_point));
}

// Nothing is left there, where this Spotter cannot read what a newer one wrote: not even a mount.
Result<void> check_kept(const verbs::Mount& request, bool already) {
  const auto good = check_formats(request.mount_point, request.directories);
  if (!good && !already) (void)unmount(request.mount_point, std::chrono::seconds(10));
  return good;
}

// Nothing is laid out.
Result<Mounted> mount_disk(const Disk& disk) {
  if (disk.filesystem != "xfs" && disk.filesystem != "ext4")
    return fail("bad-request", "the file system is xfs or ext4, not '" + disk.filesystem + "'");
  const bool directory = is_directory_device(disk.device);
  const auto already = TRY(directory ? mount_directory(disk) : mount_block(disk));
  struct statvfs space {};
  if (::statvfs(disk.mount_point.c_str(), &space) != 0)
    return fail_errno(errno, "cannot look at " + disk.mount_point.string(), "mount-failed");
  if (!directory && !disk.read_only && (space.f_flag & ST_RDONLY) != 0) {
    return fail("device-read-only",
                disk.mount_point.string() + " is mounted read-only; see the kernel's log for why");
  }
  Mounted mounted;
  mounted.already = already;
  mounted.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  if (!disk.read_only) return mounted;  // ensure_layout() looks
  if (const auto record = read_volume_record(disk.mount_point))
    mounted.previous_volume = record->volume;
  return mounted;
}

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto try_every = 100ms;
constexpr std::size_t named_holders = 8;
constexpr int stacked_limit =
    4;  // mounts of ours on top of one another, by an older agent's mistake

Result<bool> unlink_directory(const fs::path& name) {
  std::error_code error;
  // Only a symlink to a directory that carries the marker is a mount of ours.
  if (!fs::exists(fs::read_symlink(name, error) / directory_marker, error)) return false;
  if (!fs::remove(name, error))
    return fail_errno(error, "cannot remove " + name.string(), "unmount-failed");
  return true;
}

tl::unexpected<Error> busy(const fs::path& name, dev_t device) {
  std::string words;
  for (const auto& holder : holders(device, named_holders))
    words += (words.empty() ? "" : "; ") + holder;
  if (words.empty())
    words =
        "no process is seen to use it (a loop device or swap file on it, or an unmount "
        "that has not ended?)";
  return fail("mount-busy", name.string() + " cannot be unmounted: " + words);
}

Result<void> unmount_top(const fs::path& name, dev_t device, Clock::time_point until) {
  for (;;) {
    if (::umount2(name.c_str(), UMOUNT_NOFOLLOW) == 0) return {};
    const int error = errno;
    if (error == EINVAL) return {};  // no mount point any more
    if (error != EBUSY)
      return fail_errno(error, "cannot unmount " + name.string(), "unmount-failed");
    if (Clock::now() >= until) return busy(name, device);
    std::this_thread::sleep_for(try_every);
  }
}

// Another mount namespace may hold a copy of the mount, and then the disk is not free to be
// detached.
Result<void> await_release(const fs::path& node, std::optional<dev_t> device, const fs::path& name,
                           Clock::time_point until) {
  struct stat status {};
  if (::stat(node.c_str(), &status) != 0 || !S_ISBLK(status.st_mode) ||
      (device && status.st_rdev != *device)) {
    return {};  // the node is gone or another's: nothing to prove it with
  }
  for (;;) {
    const io::Descriptor claim(::open(node.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    if (claim || errno != EBUSY) return {};
    if (Clock::now() >= until) return busy(name, status.st_rdev);
    std::this_thread::sleep_for(try_every);
  }
}

constexpr const char* model = "Amazon EC2 NVMe Instance Storage";
constexpr const char* label = "spottercache";  // XFS has room for 12 letters

// Makes a file system on the disk and returns its name. Every image has one of the two.
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

// Returns our file system on the disk, or why the disk is not for us.
Result<std::string> claim(const fs::path& disk) {
  {  // nobody else has it mounted, nor a part of it, nor made a RAID of it
    const io::Descriptor alone(::open(disk.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    if (!alone) return fail("cache-absent", disk.string() + ": " + std::strerror(errno));
  }
  const auto found = TRY(inspect(disk));
  if (found.blank) return give_filesystem(disk);
  if (found.label == label && !found.filesystem.empty()) return found.filesystem;
  return fail("cache-absent", disk.string() + " holds " + found.detail + ": it is left alone");
}

// Each boot the user may have another number: what is there is the user's as well.
Result<void> make_folder(const fs::path& folder, const User& user) {
  const auto made = TRY(make_folder_at(folder));
  if (::geteuid() != 0) return {};
  return or_fail(made.give(user.uid, user.gid),
                 "cannot give " + folder.string() + " to " + user.name);
}

// Its log need not be kept: what was not whole when the machine stopped is fetched again.
Result<void> mount_cache(const fs::path& disk, const std::string& filesystem,
                         const fs::path& mount_point) {
  TRY(make_directories(mount_point));
  if (::mount(disk.c_str(), mount_point.c_str(), filesystem.c_str(),
              MS_NODEV | MS_NOSUID | MS_NOATIME, "") == 0)
    return {};
  return fail_errno(errno, "cannot mount " + disk.string() + " on " + mount_point.string(),
                    "mount-failed");
}

// A folder of root's on the file system that the image made of the disks, in the place of a disk.
// Anybody may write beside it, so it is mounted by its descriptor.
Result<void> mount_folder_of(const fs::path& images_own, const fs::path& mount_point) {
  std::string name = "spotter" + mount_point.string();
  std::ranges::replace(name, '/', '-');
  const auto ours = TRY(make_folder_at(images_own / name));
  const auto status = TRY(or_fail(ours.status(), "cannot make " + (images_own / name).string()));
  if (status.st_uid != ::geteuid())
    return fail("cache-absent", (images_own / name).string() + " is another user's");
  TRY(make_directories(mount_point));
  const std::string from = "/proc/self/fd/" + std::to_string(ours.descriptor());
  if (::mount(from.c_str(), mount_point.c_str(), nullptr, MS_BIND, nullptr) == 0) return {};
  return fail_errno(errno, "cannot mount " + (images_own / name).string(), "mount-failed");
}

}  // namespace

Result<Mounted> mount(const verbs::Mount& request, const Machine& machine) {
  auto mounted = TRY(mount_disk(
      {request.device, request.filesystem, request.mount_point, request.read_only, false}));
  TRY(check_kept(request, mounted.already));
  if (request.read_only) return mounted;
  const auto user = TRY(find_user(request.user));
  const auto root = TRY(open_directory(request.mount_point));
  TRY(ensure_layout(root, request.volume, request.directories, user, mounted));
  if (!request.link.empty())
    TRY(ensure_link(request.link, fs::path(request.mount_point) / request.container));
  if (!request.cache.empty()) {
    const auto made = make_cache(request.cache, machine, user);
    mounted.cache = made ? *made : made.error().message;
  }
  return mounted;
}

Result<Mounted> mount_data(const fs::path& device, const fs::path& mount_point) {
  const auto found = TRY(inspect(device));
  const std::string name = device.string();
  if (found.blank) return fail("not-formatted", name + " is blank: is this the right snapshot?");
  if (found.filesystem != "xfs" && found.filesystem != "ext4") {
    return fail(
        "filesystem-mismatch",
        name + " holds " + found.detail + "; a snapshot of data has xfs or ext4 on the whole disk");
  }
  return mount_disk({device, found.filesystem, mount_point, true, true});
}

Result<Look> look(const fs::path& mount_point, const fs::path& devices) {
  Look seen;
  std::error_code error;
  const auto name = mount_name(mount_point);
  if (fs::is_symlink(fs::symlink_status(name, error))) {
    const auto target = fs::read_symlink(name, error);
    const auto marker = io::read_file(target / directory_marker, 64);
    if (!marker) return seen;  // some symlink, none of ours
    seen.mounted = true;
    seen.device = target.string();
    seen.filesystem = marker->substr(0, marker->find_first_of(" \n"));
  } else if (const auto entry = mount_at(name)) {
    seen.mounted = true;
    seen.device = entry->source;
    seen.filesystem = entry->filesystem;
    seen.read_only = entry->read_only;
  } else {
    return seen;
  }
  const auto record = read_volume_record(mount_point);  // for people; a device has its own name
  if (record) seen.recorded = record->volume;
  seen.volume = volume_of(seen.device, devices);
  if (seen.volume.empty()) seen.volume = seen.recorded;
  struct statvfs space {};
  if (::statvfs(mount_point.c_str(), &space) != 0)
    return fail_errno(errno, "cannot look at " + mount_point.string());
  seen.size_bytes = static_cast<std::uint64_t>(space.f_blocks) * space.f_frsize;
  seen.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  return seen;
}

Result<void> sync(const fs::path& path) {
  const io::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, "cannot open " + path.string(), "sync-failed");
  if (::syncfs(fd.get()) != 0)
    return fail_errno(errno, "cannot sync " + path.string(), "sync-failed");
  return {};
}

Result<bool> unmount(const fs::path& mount_point, std::chrono::milliseconds wait,
                     const fs::path& device) {
  const auto name = mount_name(mount_point);
  std::error_code error;
  const bool is_link = fs::is_symlink(fs::symlink_status(name, error));
  // A trainer that was killed cannot have done it, and they would keep the volume busy.
  detach_views(is_link ? fs::weakly_canonical(name, error) : name);
  if (is_link) return unlink_directory(name);
  const auto entry = mount_at(name);
  const auto until = Clock::now() + wait;
  const auto proof = [&]() -> Result<void> {
    return device.empty() ? Result<void>() : await_release(device, std::nullopt, name, until);
  };
  if (!entry) {
    TRY(proof());
    return false;
  }
  const auto synced = sync(name);
  for (int i = 0; i < stacked_limit; ++i) {
    const auto there = mount_at(name);
    if (!there || there->device != entry->device) break;
    TRY(unmount_top(name, entry->device, until));
  }
  TRY(await_release(entry->source, entry->device, name, until));
  TRY(proof());
  if (!synced) {
    return fail("sync-failed", synced.error().message + "; " + name.string() +
                                   " is unmounted, but what was written last may be lost");
  }
  return true;
}

Result<bool> unmount(const verbs::Unmount& request, const Machine& machine) {
  fs::path device;
  if (!request.volume.empty()) {
    auto found = find_device({request.volume, request.hint, 0ms}, machine);
    if (!found && found.error().kind != "device-absent")
      return tl::unexpected<Error>(found.error());
    if (found) device = *std::move(found);
  }
  auto done = unmount(request.mount_point, request.wait, device);
  if (done) remove_link(request.link, request.mount_point);
  return done;
}

void remove_link(const fs::path& link, const fs::path& mount_point) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  if (!error && target.parent_path() == mount_point) fs::remove(link, error);
}

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

Result<std::string> make_cache(const fs::path& folder, const Machine& machine, const User& user) {
  const fs::path mount_point = folder.parent_path();
  // One agent at a time: it goes when the process ends, too.
  const io::Descriptor above(
      ::open(mount_point.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (above) (void)::flock(above.get(), LOCK_EX);
  if (const auto there = mount_at(mount_point)) {
    TRY(make_folder(folder, user));
    return "the cache is " + folder.string() + ", on " + there->source;
  }
  // Mounted over them they were out of reach: of another job, or not sent yet.
  const auto names = io::SafeDirectory::open(mount_point).and_then(&io::SafeDirectory::names);
  const bool absent = !names && names.error() == std::errc::no_such_file_or_directory;
  if (!absent && (!names || !names->empty()))
    return fail("cache-absent", "the cache stays on the storage: " + mount_point.string() +
                                    " has files already, which a disk mounted there would hide");
  const auto disks = instance_store_disks(machine.devices, machine.sysfs);
  Error why{"this machine has no instance store: the cache is on the storage", "cache-absent"};
  for (const fs::path& each : disks) {
    std::error_code gone;
    const fs::path disk = fs::canonical(each, gone);
    const auto filesystem = claim(disk);
    const auto mounted = filesystem ? mount_cache(disk, *filesystem, mount_point)
                                    : tl::unexpected<Error>(filesystem.error());
    const auto made = mounted ? make_folder(folder, user) : mounted;
    if (made) return "the cache is " + folder.string() + ", on " + disk.string();
    why = made.error();
  }
  if (!mount_at(machine.images_own)) return tl::unexpected(why);
  const auto mounted = mount_folder_of(machine.images_own, mount_point);
  TRY(mounted ? make_folder(folder, user) : mounted);
  return "the cache is " + folder.string() + ", on " + machine.images_own.string();
}

}  // namespace spotter::act::host
