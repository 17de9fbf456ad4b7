// EBS volumes: create, attach, detach, delete.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-describing-volumes.html (states),
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html,
// API_AttachVolume.html, ...
#pragma once

#include "tests/world/cloud.hpp"

namespace spotter::world {

// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
struct VolumeShape {
  std::string type;
  std::optional<std::uint64_t> gibibytes;
  std::optional<int> iops;
  std::optional<int> throughput;  // MiB/s
};
// The bounds and ratios of the type; an io1 or io2 says its IOPS.
Expected<void> check_shape(const VolumeShape& shape);
bool is_device_name(std::string_view name);  // "/dev/sdf", "xvdba"
// The baselines of what is not given. REQUIRES: gibibytes.
void complete_shape(VolumeShape& shape);

struct CreateVolume {
  Zone zone;
  std::optional<std::uint64_t> gibibytes;  // default: the snapshot's
  std::optional<SnapshotId> snapshot;
  std::string type = "gp2";  // the API's own default
  std::optional<int> iops;
  std::optional<int> throughput;
  std::optional<int> initialization_rate;
  bool encrypted = false;
  bool multi_attach = false;
  std::string key;
  Tags tags;
  std::string client_token;
  bool root = false;  // an instance's own disk: the host makes none for it
};

// A volume that RunInstances makes with an instance, in its zone.
struct LaunchVolume {
  std::string device;
  CreateVolume volume;
  bool deletes = true;
};

struct AttachVolume {
  VolumeId volume;
  InstanceId instance;
  std::string device;
};

struct DetachVolume {
  VolumeId volume;
  std::optional<InstanceId> instance;
  std::optional<std::string> device;
  bool force = false;
};

class Volumes {
 public:
  explicit Volumes(Cloud& cloud) : cloud_(cloud) {}

  Expected<Volume> create(const CreateVolume& request);
  Expected<Attachment> attach(const AttachVolume& request);
  // Its attachment follows when volume and instance are there.
  Expected<void> launch_with(const LaunchVolume& wanted, const Instance& instance);
  Expected<void> check_new(const CreateVolume& request) const;
  // The attachment as the answer shows it: detaching.
  Expected<Attachment> detach(const DetachVolume& request);
  Expected<void> remove(const VolumeId& id);
  // `wanted`: what changes. It is in force once the modification is `optimizing`.
  Expected<Modification> modify(const VolumeId& id, const VolumeShape& wanted);
  void set_mounted(const VolumeId& id, bool mounted);
  // The host reads so many MiB that nobody read since the volume was made of its snapshot; how long
  // it takes (cold.hpp).
  Duration read_first(const VolumeId& id, double mebibytes, double in_flight);

  // The volume as Describe calls see it, stale where the world is; nullptr: not (yet, any more)
  // there.
  const Volume* seen(const VolumeId& id) const;
  std::vector<Volume> list() const;

  // The instance is dead: what it held becomes available after a while.
  void release(const InstanceId& dead);
  void on(const VolumeReady& happening);
  void on(const VolumeVanishes& happening);
  void on(const AttachEnds& happening);
  void on(const DeviceAppears& happening);
  void on(const DetachEnds& happening);
  void on(const ModificationProceeds& happening);

 private:
  Expected<Volume*> reach(const VolumeId& id);
  void begin_detach(Volume& volume, Range range);
  void make_cold(Volume& volume, const Snapshot& source, std::optional<int> rate);
  Volume& change(const VolumeId& id);

  Cloud& cloud_;
};

}  // namespace spotter::world
