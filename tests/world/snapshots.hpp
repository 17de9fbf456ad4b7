// EBS snapshots. "Snapshots capture the point in time of the call ... the snapshot occurs
// asynchronously; the point-in-time snapshot is created immediately, but the status is pending
// until the snapshot is complete"
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-creating-snapshot.html
#pragma once

#include "tests/world/cloud.hpp"

namespace spotter::world {

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CopySnapshot.html, within the region.
struct CopySnapshot {
  SnapshotId source;
  std::string description;
  bool encrypted = false;
  std::string key;
  Tags tags;
};

struct CreateSnapshot {
  VolumeId volume;
  std::string description;
  Tags tags;
};

class Snapshots {
 public:
  explicit Snapshots(Cloud& cloud) : cloud_(cloud) {}

  Expected<Snapshot> create(const CreateSnapshot& request);
  Expected<Snapshot> copy(const CopySnapshot& request);
  Expected<void> remove(const SnapshotId& id);

  const Snapshot* seen(const SnapshotId& id) const;
  std::vector<Snapshot> list() const;
  int percent(const Snapshot& snapshot) const;  // progress, 0..100

  void on(const SnapshotEnds& happening);

 private:
  Cloud& cloud_;
};

}  // namespace spotter::world
