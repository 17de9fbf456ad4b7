#include "agent/host/mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <map>

#include "agent/host/device.hpp"
#include "agent/host/fd.hpp"
#include "agent/host/formats.hpp"
#include "agent/host/inspect.hpp"
#include "agent/host/instance_store.hpp"
#include "agent/host/layout.hpp"
#include "agent/host/mounts.hpp"
#include "agent/host/tool.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

// A device that is a directory is mounted by a symlink. Answers whether it was there already.
Outcome<bool> link_directory(const fs::path& device, const fs::path& mount_point) {
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

Outcome<void> check_content(const MountRequest& request) {
  const auto found = inspect(request.device);
  if (!found) return tl::unexpected<Failure>(found.error());
  if (found->filesystem == request.filesystem) return {};
  const auto device = request.device.string();
  if (found->blank)
    return fail("not-formatted", device + " is blank: there is no file system to mount");
  if (!found->filesystem.empty()) {
    return fail("filesystem-mismatch", device + " holds " + found->detail + ", but job.yaml says " +
                                           request.filesystem + "; set storage.ebs.filesystem to " +
                                           found->filesystem + " if this is the right volume");
  }
  return fail("foreign-signature", device + " holds " + found->detail +
                                       "; Spotter does not touch it. Is this the right volume?");
}

// XFS has no such step: its mount replays the log.
// https://man7.org/linux/man-pages/man8/e2fsck.8.html
Outcome<void> repair_ext4(const fs::path& device) {
  const ToolRequest request{.argv = {"e2fsck", "-p", device.string()},
                            .environment = {{"LC_ALL", "C"}}};
  const auto result = run_tool(request, "e2fsprogs");
  if (!result) return tl::unexpected<Failure>(result.error());
  constexpr int corrected = 1;
  if (result->status <= corrected) return {};
  return fail("filesystem-damaged", "e2fsck -p cannot mend " + device.string() + " by itself: " +
                                        last_words(*result) + "; run e2fsck on it by hand");
}

tl::unexpected<Failure> mount_failure(int error, const MountRequest& request) {
  const auto device = request.device.string();
  const auto what = "cannot mount " + device + " on " + request.mount_point.string();
  switch (error) {
    case EUCLEAN:
    case EBADMSG:
      return fail("filesystem-damaged",
                  device + " has a damaged file system (structure needs cleaning); run " +
                      (request.filesystem == "xfs" ? "xfs_repair" : "e2fsck") + " on it by hand");
    case EBUSY:
      return fail("device-busy", what + ": the device is in use");
    case EACCES:
    case EROFS:
      return fail("device-read-only", what + ": the device is read-only");
    case ENODEV:
      return fail("mount-failed", what + ": this kernel does not know " + request.filesystem);
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

unsigned long flags_of(const MountRequest& request) {
  return MS_NODEV | MS_NOSUID | MS_NOATIME |
         (request.read_only ? static_cast<unsigned long>(MS_RDONLY) : 0UL);
}

// https://man7.org/linux/man-pages/man5/xfs.5.html, ext4.5.html
const char* options_of(const MountRequest& request) {
  if (request.filesystem == "xfs") return request.as_it_is ? "nouuid,norecovery" : "nouuid";
  return request.as_it_is ? "noload" : "";
}

// The copy is proven: from now on it may be written to.
Outcome<void> make_writable(const MountRequest& request, const MountEntry& there) {
  if (request.read_only || !there.read_only) return {};
  if (::mount(nullptr, request.mount_point.c_str(), nullptr, MS_REMOUNT | flags_of(request),
              options_of(request)) != 0) {
    return mount_failure(errno, request);
  }
  return {};
}

// False: free to mount. True: mounted there already from this device.
Outcome<bool> already_mounted(const MountRequest& request, dev_t device) {
  const auto there = mount_at(request.mount_point);
  if (there && there->device == device) {
    if (const auto writable = make_writable(request, *there); !writable) {
      return tl::unexpected<Failure>(writable.error());
    }
    return true;
  }
  if (there) {
    return fail("mount-point-busy", there->source + " is mounted on " +
                                        request.mount_point.string() +
                                        " already; unmount it first");
  }
  for (const auto& entry : mounts()) {
    if (entry.device == device) {
      return fail("device-busy", request.device.string() + " is mounted on " + entry.mount_point +
                                     " already; unmount it there");
    }
  }
  return false;
}

Outcome<void> attach(const MountRequest& request) {
  if (const auto fit = check_content(request); !fit) return fit;
  if (const auto made = io::make_directories(request.mount_point, 0755); !made) {
    return fail_errno(made.error(), "cannot make " + request.mount_point.string(), "mount-failed");
  }
  if (request.filesystem == "ext4" && !request.read_only) {
    if (const auto mended = repair_ext4(request.device); !mended) return mended;
  }
  if (::mount(request.device.c_str(), request.mount_point.c_str(), request.filesystem.c_str(),
              flags_of(request), options_of(request)) != 0) {
    return mount_failure(errno, request);
  }
  return {};
}

Outcome<bool> mount_block(const MountRequest& request) {
  struct stat status {};
  if (::stat(request.device.c_str(), &status) != 0 || !S_ISBLK(status.st_mode)) {
    return fail("device-absent", request.device.string() + " is no block device");
  }
  const auto already = already_mounted(request, status.st_rdev);
  if (!already || *already) return already;
  if (const auto attached = attach(request); !attached) {
    return tl::unexpected<Failure>(attached.error());
  }
  return false;
}

Outcome<bool> mount_directory(const MountRequest& request) {
  if (const auto fit = check_content(request); !fit) return tl::unexpected<Failure>(fit.error());
  const auto made = io::make_directories(mount_name(request.mount_point).parent_path(), 0755);
  if (!made) return fail_errno(made.error(), "cannot make the parent of the mount point");
  return link_directory(request.device, mount_name(request.mount_point));
}

// Nothing is left there, where this Spotter cannot read what a newer one wrote: not even a mount.
Outcome<void> check_kept(const MountRequest& request, bool already) {
  const auto good = check_formats(request.mount_point, request.directories);
  if (!good && !already) (void)unmount(request.mount_point, std::chrono::seconds(10));
  return good;
}

}  // namespace

Outcome<Mounted> mount(const MountRequest& request) {
  if (request.filesystem != "xfs" && request.filesystem != "ext4") {
    return fail("bad-request", "the file system is xfs or ext4, not '" + request.filesystem + "'");
  }
  const bool directory = is_directory_device(request.device);
  const auto already = directory ? mount_directory(request) : mount_block(request);
  if (!already) return tl::unexpected<Failure>(already.error());

  Mounted mounted;
  mounted.already = *already;
  struct statvfs space {};
  if (::statvfs(request.mount_point.c_str(), &space) != 0) {
    return fail_errno(errno, "cannot look at " + request.mount_point.string(), "mount-failed");
  }
  if (!directory && !request.read_only && (space.f_flag & ST_RDONLY) != 0) {
    return fail("device-read-only", request.mount_point.string() +
                                        " is mounted read-only; see the kernel's log for why");
  }
  mounted.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  if (!request.as_it_is) {
    if (const auto good = check_kept(request, *already); !good) {
      return tl::unexpected<Failure>(good.error());
    }
  }
  if (request.read_only) {
    const auto record = read_volume_record(request.mount_point);
    if (record) mounted.previous_volume = record->volume;
    return mounted;
  }
  const auto user = find_user(request.user);
  if (!user) return tl::unexpected<Failure>(user.error());
  const auto root = io::Beneath::open(request.mount_point);
  if (!root) return fail_errno(root.error(), "cannot open " + request.mount_point.string());
  if (const auto laid = ensure_layout(*root, request, *user, mounted); !laid) {
    return tl::unexpected<Failure>(laid.error());
  }
  if (!request.cache.empty()) {
    const auto made = make_cache({request.cache, request.devices}, *user);
    mounted.cache = made ? *made : made.error().error;
  }
  return mounted;
}

Outcome<Mounted> mount_data(const fs::path& device, const fs::path& mount_point) {
  const auto found = inspect(device);
  if (!found) return tl::unexpected<Failure>(found.error());
  const std::string name = device.string();
  if (found->blank) return fail("not-formatted", name + " is blank: is this the right snapshot?");
  if (found->filesystem != "xfs" && found->filesystem != "ext4") {
    return fail("filesystem-mismatch",
                name + " holds " + found->detail +
                    "; a snapshot of data has xfs or ext4 on the whole disk");
  }
  MountRequest request;
  request.device = device;
  request.filesystem = found->filesystem;
  request.mount_point = mount_point;
  request.read_only = request.as_it_is = true;
  return mount(request);
}

Outcome<Look> look(const fs::path& mount_point, const fs::path& devices) {
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

Outcome<void> sync(const fs::path& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, "cannot open " + path.string(), "sync-failed");
  if (::syncfs(fd.get()) != 0)
    return fail_errno(errno, "cannot sync " + path.string(), "sync-failed");
  return {};
}

}  // namespace spotter::act::host
