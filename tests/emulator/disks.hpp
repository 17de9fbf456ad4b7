// Volumes and snapshots on this machine, below DIR/volumes and DIR/snapshots. A volume is a sparse
// file behind a loop device for root, a folder for an ordinary user; an attached one shows as
//  DEVICES/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0
// the name that udev gives it on Nitro instances:
// https://docs.aws.amazon.com/ebs/latest/userguide/nvme-ebs-volumes.html
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"
#include "tests/emulator/cold_files.hpp"
#include "tests/emulator/loop_device.hpp"

namespace spotter::emulator {

// A volume's link below an instance's devices: "disk/by-id/nvme-Amazon_...".
std::filesystem::path device_link(const VolumeId& volume);

class Disks {
 public:
  // Nodes: loop devices, with a node of their own that the link leads to: devices/disk/nodes/loop7.
  // Files: the link leads to the sparse file itself.
  enum class Kind { LoopDevices, Folders, Nodes, Files };
  // REQUIRES: `directory` is an absolute path.
  Disks(std::filesystem::path directory, Kind kind);

  // From now on volumes that are made cold are slow. Fails, and says why, where they cannot be.
  Result<void> mount_cold_files(double time_scale);

  // `cold`: how it is slow, if it is.
  Result<void> make(const VolumeId& volume, const std::optional<SnapshotId>& from,
                    std::uint64_t gibibytes,
                    const std::optional<world::ColdReads::Of>& cold = std::nullopt);
  // The device of an attached one grows with it.
  Result<void> grow(const VolumeId& volume, std::uint64_t gibibytes);
  Result<void> remove(const VolumeId& volume);
  Result<void> take_snapshot(const SnapshotId& snapshot, const VolumeId& volume);
  Result<void> copy_snapshot(const SnapshotId& snapshot, const SnapshotId& from);
  Result<void> remove_snapshot(const SnapshotId& snapshot);

  // The device shows below `devices` at once, or, while an earlier attachment's device is still in
  // use (a dead instance's mount goes a moment after it), with a later settle().
  // `link` is where, relative to `devices`: device_link(volume), or a name such as "xvdf".
  Result<void> attach(const VolumeId& volume, const std::filesystem::path& devices,
                      const std::filesystem::path& link);
  void detach(const VolumeId& volume);
  // Carries on with what waits; call again, some milliseconds later, while it answers true.
  bool settle();

  // None is attached, and none was ever made.
  void forget();

  // The loop device that the volume is attached as, now.
  const LoopDevice* device(const VolumeId& volume) const;
  std::filesystem::path volume_path(const VolumeId& volume) const;
  std::filesystem::path snapshot_path(const SnapshotId& snapshot) const;

 private:
  struct Attached {
    std::filesystem::path link;
    std::filesystem::path node;        // what the link leads to, if it is ours
    std::optional<LoopDevice> device;  // none: a folder, or it waits
  };

  Result<void> connect(const VolumeId& volume, Attached& attached);
  bool still_bound(const VolumeId& volume) const;
  // The file that is behind its loop device.
  std::filesystem::path file_of(const VolumeId& volume) const;
  bool has_loops() const { return kind_ == Kind::LoopDevices || kind_ == Kind::Nodes; }

  std::filesystem::path directory_;
  Kind kind_;
  double time_scale_ = 1;
  std::optional<ColdFiles> cold_files_;  // outlives the devices below
  std::map<VolumeId, Attached> attached_;
  std::map<VolumeId, int> releasing_;  // loop devices that were released, until they are free
};

}  // namespace spotter::emulator
