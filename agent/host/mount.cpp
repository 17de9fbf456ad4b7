#include "agent/host/mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <map>

#include "agent/host/device.hpp"
#include "agent/host/formats.hpp"
#include "agent/host/inspect.hpp"
#include "agent/host/instance_store.hpp"
#include "agent/host/layout.hpp"
#include "agent/host/mounts.hpp"
#include "agent/host/tool.hpp"
#include "agent/io/descriptor.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

// What is mounted, and how.
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
  if (fs::exists(mount_point, error) && !fs::remove(mount_point, error)) {
    return fail("mount-point-busy", mount_point.string() + " exists and is not an empty directory");
  }
  fs::create_symlink(target, mount_point, error);
  if (error) return fail_errno(error, "cannot make " + mount_point.string(), "mount-failed");
  return false;
}

Result<void> check_content(const Disk& disk) {
  const auto found = inspect(disk.device);
  if (!found) return tl::unexpected<Error>(found.error());
  if (found->filesystem == disk.filesystem) return {};
  const auto device = disk.device.string();
  if (found->blank)
    return fail("not-formatted", device + " is blank: there is no file system to mount");
  if (!found->filesystem.empty()) {
    return fail("filesystem-mismatch", device + " holds " + found->detail + ", but job.yaml says " +
                                           disk.filesystem + "; set storage.ebs.filesystem to " +
                                           found->filesystem + " if this is the right volume");
  }
  return fail("foreign-signature", device + " holds " + found->detail +
                                       "; Spotter does not touch it. Is this the right volume?");
}

// XFS has no such step: its mount replays the log.
// https://man7.org/linux/man-pages/man8/e2fsck.8.html
Result<void> repair_ext4(const fs::path& device) {
  const ToolRequest request{.argv = {"e2fsck", "-p", device.string()},
                            .environment = {{"LC_ALL", "C"}}};
  const auto result = run_tool(request, "e2fsprogs");
  if (!result) return tl::unexpected<Error>(result.error());
  constexpr int corrected = 1;
  if (result->status <= corrected) return {};
  return fail("filesystem-damaged", "e2fsck -p cannot mend " + device.string() + " by itself: " +
                                        last_words(*result) + "; run e2fsck on it by hand");
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
    if (const auto writable = make_writable(disk, *there); !writable) {
      return tl::unexpected<Error>(writable.error());
    }
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
  if (const auto fit = check_content(disk); !fit) return fit;
  if (const auto made = io::make_directories(disk.mount_point, 0755); !made) {
    return fail_errno(made.error(), "cannot make " + disk.mount_point.string(), "mount-failed");
  }
  if (disk.filesystem == "ext4" && !disk.read_only) {
    if (const auto mended = repair_ext4(disk.device); !mended) return mended;
  }
  if (::mount(disk.device.c_str(), disk.mount_point.c_str(), disk.filesystem.c_str(),
              flags_of(disk), options_of(disk)) != 0) {
    return disk_failure(errno, disk);
  }
  return {};
}

Result<bool> mount_block(const Disk& disk) {
  struct stat status {};
  if (::stat(disk.device.c_str(), &status) != 0 || !S_ISBLK(status.st_mode)) {
    return fail("device-absent", disk.device.string() + " is no block device");
  }
  const auto already = already_mounted(disk, status.st_rdev);
  if (!already || *already) return already;
  if (const auto attached = attach(disk); !attached) {
    return tl::unexpected<Error>(attached.error());
  }
  return false;
}

Result<bool> mount_directory(const Disk& disk) {
  if (const auto fit = check_content(disk); !fit) return tl::unexpected<Error>(fit.error());
  const auto made = io::make_directories(mount_name(disk.mount_point).parent_path(), 0755);
  if (!made) return fail_errno(made.error(), "cannot make the parent of the mount point");
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
  if (disk.filesystem != "xfs" && disk.filesystem != "ext4") {
    return fail("bad-request", "the file system is xfs or ext4, not '" + disk.filesystem + "'");
  }
  const bool directory = is_directory_device(disk.device);
  const auto already = directory ? mount_directory(disk) : mount_block(disk);
  if (!already) return tl::unexpected<Error>(already.error());
  struct statvfs space {};
  if (::statvfs(disk.mount_point.c_str(), &space) != 0) {
    return fail_errno(errno, "cannot look at " + disk.mount_point.string(), "mount-failed");
  }
  if (!directory && !disk.read_only && (space.f_flag & ST_RDONLY) != 0) {
    return fail("device-read-only",
                disk.mount_point.string() + " is mounted read-only; see the kernel's log for why");
  }
  Mounted mounted;
  mounted.already = *already;
  mounted.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  if (!disk.read_only) return mounted;  // ensure_layout() looks
  if (const auto record = read_volume_record(disk.mount_point))
    mounted.previous_volume = record->volume;
  return mounted;
}

Layout layout_of(const verbs::Mount& request) {
  Layout layout{request.volume, request.directories, {}};
  if (!request.link.empty())
    layout.link = {request.link, fs::path(request.mount_point) / request.container};
  return layout;
}

}  // namespace

Result<Mounted> mount(const verbs::Mount& request, const Machine& machine) {
  auto mounted = mount_disk(
      {request.device, request.filesystem, request.mount_point, request.read_only, false});
  if (!mounted) return mounted;
  if (const auto good = check_kept(request, mounted->already); !good) {
    return tl::unexpected<Error>(good.error());
  }
  if (request.read_only) return mounted;
  const auto user = find_user(request.user);
  if (!user) return tl::unexpected<Error>(user.error());
  const auto root = io::Beneath::open(request.mount_point);
  if (!root) return fail_errno(root.error(), "cannot open " + request.mount_point);
  if (const auto laid = ensure_layout(*root, layout_of(request), *user, *mounted); !laid) {
    return tl::unexpected<Error>(laid.error());
  }
  if (!request.cache.empty()) {
    const auto made = make_cache({request.cache, machine.devices}, *user);
    mounted->cache = made ? *made : made.error().message;
  }
  return mounted;
}

Result<Mounted> mount_data(const fs::path& device, const fs::path& mount_point) {
  const auto found = inspect(device);
  if (!found) return tl::unexpected<Error>(found.error());
  const std::string name = device.string();
  if (found->blank) return fail("not-formatted", name + " is blank: is this the right snapshot?");
  if (found->filesystem != "xfs" && found->filesystem != "ext4") {
    return fail("filesystem-mismatch",
                name + " holds " + found->detail +
                    "; a snapshot of data has xfs or ext4 on the whole disk");
  }
  return mount_disk({device, found->filesystem, mount_point, true, true});
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
  if (::statvfs(mount_point.c_str(), &space) != 0) {
    return fail_errno(errno, "cannot look at " + mount_point.string());
  }
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

}  // namespace spotter::act::host
