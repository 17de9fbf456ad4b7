#include "tests/world/snapshots.hpp"

#include <algorithm>

namespace spotter::world {

// Limits: "Snapshots: five pending a volume (one for st1, sc1), 15 s apart", deleted pending ones
// count. https://docs.aws.amazon.com/ebs/latest/userguide/ebs-resource-quotas.html ("Concurrent
// snapshots per Amazon EBS ... volume"),
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
// (ConcurrentSnapshotLimitExceeded, SnapshotCreationPerVolumeRateExceeded)
Expected<Snapshot> Snapshots::create(const CreateSnapshot& request) {
  const Volume* volume = cloud_.volumes.find(request.volume);
  if (!volume || volume->state == VolumeState::Deleted ||
      !cloud_.volumes.seen(request.volume, cloud_.now)) {
    return refusal("InvalidVolume.NotFound",
                   "The volume '" + request.volume.str() + "' does not exist.");
  }
  if (volume->state != VolumeState::Available && volume->state != VolumeState::InUse) {
    return refusal("IncorrectState", "Volume '" + volume->id.str() + "' is not 'available'.");
  }
  std::size_t pending = 0;
  cloud_.snapshots.each([&](const Snapshot& other) {
    pending += other.volume == request.volume && cloud_.now < other.ends;
  });
  const bool cold = volume->type == "st1" || volume->type == "sc1";
  if (pending >= (cold ? 1 : cloud_.settings.pending_snapshots)) {
    return refusal("ConcurrentSnapshotLimitExceeded",
                   "Maximum allowed in-progress snapshots for a single volume exceeded.");
  }
  std::vector<Time>& calls = cloud_.snapshot_times[request.volume];
  if (pending > 0 && !calls.empty() && cloud_.now - calls.back() < cloud_.settings.snapshot_gap) {
    return refusal("SnapshotCreationPerVolumeRateExceeded",
                   "The maximum per volume CreateSnapshot request rate has been exceeded. Use an "
                   "increasing or variable sleep interval between requests.");
  }
  calls.assign(1, cloud_.now);

  StorageFaults& faults = cloud_.storage_faults;
  const Duration size_cost = cloud_.settings.snapshot_per_gibibyte * volume->gibibytes;
  const Duration takes =
      faults.snapshot_takes.value_or(cloud_.random.within(cloud_.settings.snapshot) + size_cost);
  Snapshot snapshot{.id = SnapshotId("snap-0" + cloud_.random.hex(16)),
                    .volume = volume->id,
                    .gibibytes = volume->gibibytes,
                    .encrypted = volume->encrypted,
                    .key = volume->key,
                    .description = request.description,
                    .started = cloud_.now,
                    .ends = cloud_.now + takes,
                    .tags = request.tags};
  if (faults.snapshots_to_fail > 0) {
    --faults.snapshots_to_fail;
    snapshot.outcome = SnapshotState::Error;
  } else if (faults.snapshots_to_recover > 0) {
    --faults.snapshots_to_recover;
    snapshot.outcome = SnapshotState::Recoverable;
  }
  cloud_.occur(SnapshotTaken{snapshot.id, snapshot.volume});
  cloud_.schedule(takes, SnapshotEnds{snapshot.id});
  cloud_.record("snapshot-started", snapshot.id.str(), snapshot.volume.str());
  return cloud_.snapshots.add(snapshot.id, snapshot, cloud_.now, cloud_.lag());
}

// "The snapshot copy ... has an arbitrary volume ID that should not be used": API_CopySnapshot.html
Expected<Snapshot> Snapshots::copy(const CopySnapshot& request) {
  const Snapshot* source = seen(request.source);
  if (!source)
    return refusal("InvalidSnapshot.NotFound",
                   "The snapshot '" + request.source.str() + "' does not exist.");
  if (source->state != SnapshotState::Completed)
    return refusal("IncorrectState", "Snapshot is in invalid state - pending");
  if (!request.key.empty() && !request.encrypted && !source->encrypted)
    return refusal("InvalidParameterDependency",
                   "The parameter KmsKeyId requires the parameter Encrypted to be set.");
  const Duration takes = cloud_.random.within(cloud_.settings.snapshot);
  const Snapshot snapshot{.id = SnapshotId("snap-0" + cloud_.random.hex(16)),
                          .volume = VolumeId("vol-ffffffff"),
                          .gibibytes = source->gibibytes,
                          .encrypted = request.encrypted || source->encrypted,
                          .key = request.key.empty() ? source->key : request.key,
                          .description = request.description,
                          .started = cloud_.now,
                          .ends = cloud_.now + takes,
                          .tags = request.tags};
  cloud_.occur(SnapshotCopied{snapshot.id, request.source});
  cloud_.schedule(takes, SnapshotEnds{snapshot.id});
  cloud_.record("snapshot-started", snapshot.id.str(), request.source.str());
  return cloud_.snapshots.add(snapshot.id, snapshot, cloud_.now, cloud_.lag());
}

Expected<void> Snapshots::remove(const SnapshotId& id) {
  if (!seen(id) || cloud_.snapshots.find(id)->state == SnapshotState::Deleted) {
    return refusal("InvalidSnapshot.NotFound", "The snapshot '" + id.str() + "' does not exist.");
  }
  cloud_.snapshots.change(id, cloud_.now, cloud_.lag()).state = SnapshotState::Deleted;
  cloud_.occur(SnapshotRemoved{id});
  cloud_.record("snapshot-deleted", id.str());
  return {};
}

const Snapshot* Snapshots::seen(const SnapshotId& id) const {
  const Snapshot* snapshot = cloud_.snapshots.seen(id, cloud_.now);
  return snapshot && snapshot->state != SnapshotState::Deleted ? snapshot : nullptr;
}

std::vector<Snapshot> Snapshots::list() const {
  std::vector<Snapshot> snapshots;
  cloud_.snapshots.each_seen(cloud_.now, [&](const Snapshot& snapshot) {
    if (snapshot.state != SnapshotState::Deleted) snapshots.push_back(snapshot);
  });
  return snapshots;
}

int Snapshots::percent(const Snapshot& snapshot) const {
  if (snapshot.state == SnapshotState::Completed) return 100;
  const auto whole = std::max<Duration::rep>(1, (snapshot.ends - snapshot.started).count());
  const auto done = (cloud_.now - snapshot.started).count();
  return static_cast<int>(std::clamp<Duration::rep>(done * 100 / whole, 0, 99));
}

void Snapshots::on(const SnapshotEnds& happening) {
  if (cloud_.snapshots.find(happening.id)->state != SnapshotState::Pending) return;
  Snapshot& snapshot = cloud_.snapshots.change(happening.id, cloud_.now, cloud_.lag());
  snapshot.state = snapshot.outcome;
  cloud_.record(
      snapshot.outcome == SnapshotState::Completed ? "snapshot-completed" : "snapshot-failed",
      snapshot.id.str());
}

}  // namespace spotter::world
