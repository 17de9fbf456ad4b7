// EC2 in the abstract: what tests/world does in detail, and what each effect means there
// (agent/service/act/cloud.cpp). A call is carried out in one instant; attaching, detaching,
// creating and copying then take as long as the search likes.
#include <algorithm>

#include "tests/explore/pack.hpp"
#include "tests/explore/world.hpp"

namespace spotter::explore {

using namespace decide;

namespace {

struct Call {
  Node& node;
  std::uint8_t caller;
  bool unseen;

  Time bound() const { return kNow + small_policy().consistency_bound; }

  Volume* reach(const VolumeId& id) const {
    Volume* volume = find_volume(node, number_of(id));
    return volume && volume->face.there ? volume : nullptr;
  }

  template <class Change>
  Happening change(const VolumeId& id, Change how) const {
    Volume* volume = reach(id);
    if (!volume) return failed(Failure::Missing);
    const Face before = volume->face;
    how(*volume);
    hide(*volume, before);
    return CallAccepted{};
  }

  void hide(Volume& volume, const Face& before) const {
    if (!unseen) return;
    volume.old = before;
    volume.old_until = bound();
  }

  Happening operator()(const decide::AttachVolume& it) const {
    const Volume* volume = reach(it.volume);
    if (!volume) return failed(Failure::Missing);
    const bool able = caller != kNobody && volume->face.state == VolumeState::Available &&
                      volume->zone == node.hosts[caller - 1].zone;
    if (!able) return failed(Failure::Conflict);
    return change(it.volume, [&](Volume& its) {
      its.face.state = VolumeState::InUse;
      its.face.attachment = AttachmentState::Attaching;
      its.face.holder = caller;
    });
  }
  Happening operator()(const decide::DetachVolume& it) const {
    const Volume* volume = reach(it.volume);
    if (!volume) return failed(Failure::Missing);
    const Face& face = volume->face;
    const bool able = face.holder != kNobody && face.holder != kDying &&
                      face.holder != kTerminated && face.attachment != AttachmentState::Detaching &&
                      instance_id(face.holder) == it.instance;
    if (!able) return failed(Failure::Conflict);
    if (face.holder != kStopped && node.hosts[face.holder - 1].mounted == volume->id) {
      broken(node, "a mounted volume is detached");
    }
    return change(it.volume, [](Volume& its) { its.face.attachment = AttachmentState::Detaching; });
  }
  Happening operator()(const ClaimVolume& it) const {
    return change(it.volume, [&](Volume& its) {
      its.face.role = Role::State;
      its.face.generation = it.generation;
    });
  }
  Happening operator()(const MarkVerified& it) const {
    return change(it.volume, [](Volume& its) { its.face.role = Role::Verified; });
  }
  Happening operator()(const PromoteVolume& it) const {
    return change(it.volume, [&](Volume& its) {
      its.face.role = Role::State;
      its.face.discoverable = true;
      if (it.generation != 0) its.face.generation = it.generation;
    });
  }
  Happening operator()(const MarkDone& it) const {
    return change(it.volume, [](Volume& its) { its.face.done = true; });
  }
  // S3 compares and writes in one instant, and shows it at once.
  Happening operator()(const WriteEpoch& it) const {
    if (in_bucket()) return write_epoch(node, caller, it.epoch);
    if (node.epoch.number + 1 != it.epoch.number) return failed(Failure::Conflict);
    node.epoch = it.epoch;
    node.epoch.holder = {};
    node.epoch_holder = caller == kNobody ? std::uint8_t{kDying} : caller;
    return EpochWritten{};
  }
  Happening operator()(const WriteLedger& it) const {
    return keep(node, node.hosts[caller - 1], it);
  }
  Happening operator()(const decide::DeleteVolume& it) const {
    const Volume* volume = reach(it.volume);
    if (!volume) return failed(Failure::Missing);
    const VolumeState state = volume->face.state;
    const bool able = state == VolumeState::Available || state == VolumeState::Error;
    if (!able) return failed(Failure::Conflict);
    judge_removal(node, *volume, caller);
    return change(it.volume, [](Volume& its) { its.face.there = false; });
  }
  Happening operator()(const decide::CreateSnapshot& it) const {
    const Volume* volume = reach(it.volume);
    if (!volume) return failed(Failure::Missing);
    const std::uint8_t id = unused_snapshot(node);
    for (Snapshot& slot : node.snapshots) {
      if (slot.id) continue;
      slot.id = id;
      slot.there = true;
      slot.old_until = unseen ? bound() : kNever;
      slot.parent = volume->id;
      slot.rank = 99;
      slot.generation = it.generation;
      slot.moves = volume->moves;
      slot.taken = it.taken;
      slot.image = volume->contents;
      return SnapshotStarted{snapshot_id(id)};
    }
    broken(node, "ever more snapshots");
    return failed(Failure::Unavailable);
  }
  Happening operator()(const decide::CreateVolume& it) const {
    Snapshot* from = find_snapshot(node, number_of(it.snapshot));
    if (!from || !from->there) return failed(Failure::Missing);
    if (from->state != SnapshotState::Completed) return failed(Failure::Conflict);
    const std::uint8_t zone = it.zone == zone_name(1) ? 1 : 0;
    const auto token = static_cast<std::uint8_t>(1U << (it.attempt & 7U));
    if (from->tokens[zone] & token) {  // the same question: the same answer
      for (const Volume& volume : node.volumes) {
        const bool same = volume.id && volume.face.there && volume.from == from->id &&
                          volume.attempt == it.attempt && volume.zone == zone;
        if (same) return VolumeCreated{volume_id(volume.id)};
      }
      return failed(Failure::Conflict);  // burned
    }
    const Volume* parent = find_volume(node, number_of(it.parent));
    const bool to_format = parent && parent->face.there && parent->to_format;
    from->tokens[zone] |= token;
    const std::uint8_t id = unused_volume(node);
    for (Volume& slot : node.volumes) {
      if (slot.id) continue;
      slot.id = id;
      slot.face.there = true;
      slot.face.role = Role::Candidate;
      slot.face.generation = it.generation;
      slot.zone = zone;
      slot.parent = number_of(it.parent);
      slot.from = from->id;
      slot.attempt = static_cast<std::uint8_t>(it.attempt);
      slot.moves = from->moves + 1;
      slot.to_format = to_format;
      slot.contents = from->image;
      hide(slot, Face{});
      return VolumeCreated{volume_id(id)};
    }
    broken(node, "ever more volumes");
    return failed(Failure::Unavailable);
  }
  Happening operator()(const decide::DeleteSnapshot& it) const {
    Snapshot* snapshot = find_snapshot(node, number_of(it.snapshot));
    if (!snapshot || !snapshot->there) return failed(Failure::Missing);
    snapshot->there = false;
    if (unseen) {
      snapshot->old_there = true;
      snapshot->old_until = bound();
    }
    return CallAccepted{};
  }
  Happening operator()(const decide::CancelFleet&) const {
    judge_cancel(node, caller);
    node.cancelled = true;
    return CallAccepted{};
  }
  Happening operator()(const ScaleFleetToZero&) const {
    judge_surrender(node);
    node.scaled_to_zero = true;
    return CallAccepted{};
  }
  Happening operator()(const GiveBackInstance&) const {
    judge_give_back(node, node.hosts[caller - 1]);
    node.hosts[caller - 1].left = true;
    return CallAccepted{};
  }
  Happening operator()(const ReadFleet&) const {
    return FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 0};
  }
  template <class Other>
  Happening operator()(const Other&) const {
    return failed(Failure::Rejected);
  }
};

HolderState holder_state(std::uint8_t holder) {
  if (holder == kTerminated) return HolderState::Gone;
  return holder == kStopped ? HolderState::Stopped : HolderState::Alive;
}

}  // namespace

Happening call_ec2(Node& node, std::uint8_t caller, const Command& command, bool unseen) {
  return std::visit(Call{node, caller, unseen}, command);
}

bool changes_ec2(const Command& command) {
  return std::visit(
      [](const auto& it) {
        using It = std::decay_t<decltype(it)>;
        const bool volume = std::is_same_v<It, decide::AttachVolume> ||
                            std::is_same_v<It, decide::DetachVolume> ||
                            std::is_same_v<It, ClaimVolume> || std::is_same_v<It, MarkVerified> ||
                            std::is_same_v<It, PromoteVolume> || std::is_same_v<It, MarkDone> ||
                            std::is_same_v<It, decide::DeleteVolume>;
        return volume || std::is_same_v<It, decide::CreateVolume> ||
               std::is_same_v<It, decide::CreateSnapshot> ||
               std::is_same_v<It, decide::DeleteSnapshot> ||
               std::is_same_v<It, decide::CancelFleet> || std::is_same_v<It, ScaleFleetToZero> ||
               std::is_same_v<It, GiveBackInstance> || std::is_same_v<It, WriteEpoch> ||
               (in_bucket() && std::is_same_v<It, WriteLedger>);
      },
      command);
}

bool is_stale(const Node& node) {
  if (in_bucket()) return is_lease_over(node);
  const auto old = [](const auto& it) { return it.id && it.old_until != kNever; };
  return std::any_of(node.volumes.begin(), node.volumes.end(), old) ||
         std::any_of(node.snapshots.begin(), node.snapshots.end(), old);
}

Survey survey(const Node& node, bool stale) {
  Survey seen;
  for (const Volume& it : node.volumes) {
    const Face& face = stale && it.old_until != kNever ? it.old : it.face;
    if (!it.id || !face.there) continue;
    SeenVolume volume;
    volume.id = volume_id(it.id);
    volume.zone = zone_name(it.zone);
    volume.state = face.state;
    volume.discoverable = face.discoverable;
    volume.role = face.role;
    volume.parent = volume_id(it.parent);
    volume.lineage = volume_id(1);  // one job
    volume.moves = it.moves;
    volume.generation = face.generation;
    volume.ours_to_format = it.to_format;
    volume.done = face.done;
    volume.from = snapshot_id(it.from);
    volume.attachment = face.attachment;
    volume.holder = instance_id(face.holder);
    volume.holder_state = holder_state(face.holder);
    seen.volumes.push_back(volume);
  }
  for (const Snapshot& it : node.snapshots) {
    const bool there = stale && it.old_until != kNever ? it.old_there : it.there;
    if (!it.id || !there) continue;
    SeenSnapshot snapshot;
    snapshot.id = snapshot_id(it.id);
    snapshot.parent = volume_id(it.parent);
    snapshot.lineage = volume_id(1);
    snapshot.moves = it.moves;
    snapshot.generation = it.generation;
    snapshot.taken = it.taken;
    snapshot.state = it.state;
    snapshot.started = it.rank;
    seen.snapshots.push_back(snapshot);
  }
  seen.epoch_line = volume_id(1);
  seen.epoch = node.epoch;
  seen.epoch.holder = instance_id(node.epoch_holder);
  seen.epoch_holder = holder_state(node.epoch_holder);
  if (in_bucket() && stale) seen.epoch_holder = HolderState::Gone;
  return seen;
}

}  // namespace spotter::explore
