// The volume follows its job into another zone: snapshot, candidate, verification, commit,
// promotion (spotter-storage(7)). DeleteVolume of the parent is the commit: atomic, and refused
// while any instance has it attached. plan.cpp decides each next step by a fresh survey.
#include <algorithm>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

Stage look_again(Context& c) {
  if (Next end = leaving(c)) return *end;
  return survey(c);
}

// EC2 may show what was deleted for a while: a survey at once would find it again.
Stage look_again_soon(Context& c) {
  if (Next end = leaving(c)) return *end;
  return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
}

}  // namespace

Next on(const Snapshotting&, const SnapshotStarted&, Context& c) {
  c.facts.move.snapshot_asked_at = c.now;
  if (Next end = leaving(c)) return end;
  return wait(c, Wait::SnapshotPending, c.policy.poll_snapshot);
}

Next on(const Snapshotting&, const EffectFailed& failed, Context& c) {
  if (failed.unsettled) c.facts.move.snapshot_asked_at = c.now;  // it may be on its way
  return call_failed(c, failed);
}

Next on(const CreatingCandidate&, const VolumeCreated&, Context& c) {
  c.facts.move.created_at = c.now;
  if (Next end = leaving(c)) return end;
  return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
}

Next on(const CreatingCandidate&, const EffectFailed& failed, Context& c) {
  // Conflict: the ClientToken belongs to a creation that failed later (a key we may not use).
  if (failed.failure == Failure::Conflict) ++c.facts.move.create_attempt;
  return call_failed(c, failed);
}

Next on(const MarkingVerified&, const CallAccepted&, Context& c) {
  c.facts.move.verified_at = c.now;
  return look_again(c);
}

Next on(const MarkingVerified&, const EffectFailed& failed, Context& c) {
  return call_failed(c, failed);
}

Next on(const Committing&, const CallAccepted&, Context& c) { return look_again(c); }

// Missing: another agent's commit was first. Conflict: the parent is in use again, ours is stale.
Next on(const Committing&, const EffectFailed& failed, Context& c) {
  if (failed.failure == Failure::Missing) return look_again_soon(c);
  return call_failed(c, failed);
}

Next on(const Promoting& stage, const CallAccepted&, Context& c) {
  if (c.facts.holding.volume == stage.candidate)
    c.facts.holding.generation = 0;  // to be claimed as any other
  if (Next end = leaving(c)) return end;
  // Number 0: the move began without a fence, and the first epoch is still to be written.
  if (c.policy.fence && c.facts.fence.epoch.number != 0) {
    const std::uint32_t generation = c.facts.fence.epoch.generation;
    c.ask(ClaimVolume{stage.candidate, generation}, c.policy.ec2_call);
    return Claiming{stage.candidate, generation};
  }
  return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
}

Next on(const Promoting&, const EffectFailed& failed, Context& c) { return call_failed(c, failed); }

Next on(const Discarding&, const CallAccepted&, Context& c) { return look_again_soon(c); }

Next on(const Discarding&, const EffectFailed& failed, Context& c) {
  if (failed.failure == Failure::Missing) return look_again_soon(c);
  return call_failed(c, failed);
}

namespace {

// The newest completed snapshot is what the next one is small against; a newer one that is pending
// will follow it.
bool is_base(const SeenSnapshot& snapshot, const Survey& survey) {
  const bool completed = snapshot.state == SnapshotState::Completed;
  if (!completed && snapshot.state != SnapshotState::Pending) return false;
  return std::none_of(survey.snapshots.begin(), survey.snapshots.end(), [&](const auto& other) {
    const bool follows = other.state == SnapshotState::Completed ||
                         (!completed && other.state == SnapshotState::Pending);
    const bool newer = other.started > snapshot.started ||
                       (other.started == snapshot.started && other.id > snapshot.id);
    return follows && newer;
  });
}

}  // namespace

// A stopped instance keeps its attachments, also when it never starts again; one that was attaching
// when it stopped stays so for ever.
bool held_by_stopped(const SeenVolume& volume) {
  return volume.holder && volume.holder_state == HolderState::Stopped &&
         volume.attachment != AttachmentState::Detaching;
}

// Only for the instance that holds and has claimed the current volume: every snapshot taken for a
// move and every candidate is obsolete then. One at a time; nullopt: nothing is left. `idle`: this
// instance uses none of what it holds (a stale survey may show the volume in use as a copy).
std::optional<Command> leftover(const Survey& survey, const InstanceId& idle, bool keep_newest) {
  for (const SeenVolume& volume : survey.volumes) {
    const bool free = volume.state == VolumeState::Available || volume.state == VolumeState::Error;
    if (!is_copy(volume)) continue;
    if (free && !volume.holder) return DeleteVolume{volume.id};
    // Attached by an agent that was killed, or by its late call.
    const bool ours = volume.holder == idle && volume.attachment == AttachmentState::Attached;
    if (ours || held_by_stopped(volume)) return DetachVolume{volume.id, volume.holder};
  }
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    if (snapshot.state == SnapshotState::Recoverable) continue;  // nor can it be deleted
    if (!keep_newest || !is_base(snapshot, survey)) return DeleteSnapshot{snapshot.id};
  }
  return std::nullopt;
}

}  // namespace spotter::decide
