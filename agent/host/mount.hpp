// Mounting and unmounting the job's volume. Never lazy, never forced.
#pragma once

#include "agent/host/device.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

struct Mounted {
  static constexpr std::string_view keys =
      "already previous_volume owners_changed free_bytes cache";
  bool already = false;         // it was mounted from this device before
  std::string previous_volume;  // what volume.json said before: another one after a migration
  std::uint64_t owners_changed = 0;
  std::uint64_t free_bytes = 0;
  std::string cache;  // words about it; that there is none is no failure
};

// Checks (e2fsck -p for ext4; XFS replays its log), mounts with nodev,nosuid,noatime (XFS: nouuid,
// since a snapshot's copy has its parent's UUID), and makes sure of `.spotter/volume.json` (ours,
// 0755) and the user's directories. When the user's uid differs from the recorded one (another
// image), what belonged to the old uid is given to the new one. If a later part fails, the volume
// stays mounted; where a newer Spotter has written to it ("newer-format"), nothing is written, and
// it does not.
Result<Mounted> mount(const verbs::Mount& request, const Machine& machine = {});

// A volume of data: read-only, without a replay of its log, whichever of the two file systems is on
// it, and nothing is laid out.
Result<Mounted> mount_data(const std::filesystem::path& device,
                           const std::filesystem::path& mount_point);

// Detaches what detach_views() finds there, syncfs, umount (again every 100 ms while busy, until
// `wait` is over), and proof that no mount namespace still holds the device, nor `device` (empty:
// none), which an earlier call may have unmounted, or hang in doing so. A device that is not
// mounted is a success. Answers whether it had been mounted. Kinds: "mount-busy" (names the
// holders), "sync-failed" (data may not be durable; says whether it is unmounted).
Result<bool> unmount(const std::filesystem::path& mount_point, std::chrono::milliseconds wait,
                     const std::filesystem::path& device = {});

// The same, with the disk of the volume that the request names, if it is at this machine; then
// remove_link().
Result<bool> unmount(const verbs::Unmount& request, const Machine& machine);

// Removes that of verbs::Mount, when it leads to a folder of this mount point: anything else is
// somebody's. The next mount() makes it again, or takes over one that could not be removed.
void remove_link(const std::filesystem::path& link, const std::filesystem::path& mount_point);

struct Look {
  static constexpr std::string_view keys =
      "mounted device filesystem volume recorded read_only size_bytes free_bytes";
  bool mounted = false;
  std::string device;
  std::string filesystem;
  std::string volume;    // by the device's serial, else what the record says; empty: unknown
  std::string recorded;  // of .spotter/volume.json: on a fresh copy, the volume it was copied from
  bool read_only = false;
  std::uint64_t size_bytes = 0;
  std::uint64_t free_bytes = 0;
};
Result<Look> look(const std::filesystem::path& mount_point,
                  const std::filesystem::path& devices = "/dev");

// syncfs of the file system that holds `path`.
Result<void> sync(const std::filesystem::path& path);

// The machine's own disks, whose content ends with it: a place for what can be fetched again.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ssd-instance-store.html

// Device nodes of the instance store's NVMe disks, the largest first. By their model: their serials
// begin with AWS, and their names say nothing.
std::vector<std::filesystem::path> instance_store_disks(const std::filesystem::path& devices,
                                                        const std::filesystem::path& sysfs);

// `folder` is MOUNT/JOB, and the user's. One of the disks is mounted on MOUNT, or was before; a
// blank one gets a file system (XFS, else ext4) with a label of ours, one with another content is
// somebody's and left alone. If the image has mounted them itself, a folder there is used. Answers
// words for a person.
Result<std::string> make_cache(const fs::path& folder, const Machine& machine, const User& user);

}  // namespace spotter::act::host
