// The volume follows its job into another zone: snapshot, candidate, verification, commit,
// promotion (spotter-storage(7)). plan.cpp decides each next step by a fresh survey.
//
// Without a fence DeleteVolume of the parent is the commit. EC2 takes it only of a volume that is
// there and attached nowhere, so among all sessions that try, it takes it from one. That session
// knows from the answer (inferred: spotter-assumptions(7)) that it has the job, and waits for
// nothing: EC2 then attaches the parent to nobody, and nobody else can commit a copy of it. It
// promotes its copy so soon that everybody sees that before two bounds have passed since the parent
// went. A session that finds the parent gone, or got no answer, waits these two bounds before it
// elects a copy itself (storage.cpp).
//
// The copy may lack what an instance wrote to the parent after the snapshot, if that instance began
// to use the parent less than claim_known_at() before the commit was answered, and has lost it
// again since. (The generation of an earlier claim would have been seen, and the copy dropped.)
// That time is a bound, and the time of the look and of the commit (policy.hpp: commit_call). Such
// an instance ran beside the one that commits, because an instance that ended before has written
// nothing since the snapshot: one that leaves on a notice takes the snapshot itself, when its
// generation is known to all (release.cpp). And an instance that sees the snapshot of a move, or a
// copy, writes nothing before that time (plan.cpp: attached_here()).
#include <algorithm>
#include <vector>

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

// A role, an account's quota or a region may refuse the rate alone, and no move waits for that.
Next on(const CreatingCandidate& stage, const EffectFailed& failed, Context& c) {
  const bool refused = failed.failure == Failure::Refused || failed.failure == Failure::Rejected;
  if (stage.rate != 0 && refused) {
    c.facts.move.unpaid = true;
    return look_again(c);
  }
  // Conflict: the ClientToken belongs to a creation that failed later (a key we may not use).
  if (failed.failure == Failure::Conflict) ++c.facts.move.create_attempt;
  return call_failed(c, failed);
}

Next on(const MarkingVerified&, const CallAccepted&, Context& c) {
  c.facts.move.marked = true;
  return look_again(c);
}

// Too late for others to see the promotion in time: then the job goes to whom all elect. Half a
// bound is left for a call that is carried out after its limit.
Next on(const Committing& stage, const CallAccepted&, Context& c) {
  if (Next end = leaving(c)) return end;
  const Time by = stage.asked_at + c.policy.consistency_bound;
  const Duration left = by - c.now;
  if (left < c.policy.consistency_bound / 2) return survey(c);
  const VolumeId candidate = c.facts.move.verified;
  c.ask(PromoteVolume{candidate, stage.generation}, std::min<Duration>(left, c.policy.ec2_call));
  return Promoting{candidate, stage.parent, stage.generation, by};
}

// Missing: another agent's commit was first. Conflict: the parent is in use again, ours is stale.
Next on(const Committing&, const EffectFailed& failed, Context& c) {
  if (failed.failure == Failure::Missing) return look_again_soon(c);
  return call_failed(c, failed);
}

Next on(const Promoting& stage, const CallAccepted&, Context& c) {
  // A machine that was paused: when the call was carried out nobody knows.
  if (c.now > stage.by) {
    if (Next end = leaving(c)) return end;
    return look_again_soon(c);
  }
  const bool claimed = stage.generation != 0;
  if (c.facts.holding.volume == stage.candidate) {
    c.facts.holding.generation = stage.generation;  // 0: to be claimed as any other
    if (claimed) c.facts.holding.claimed_at = c.now;
  }
  if (stage.original) {
    c.facts.move.original = stage.original;
    c.facts.move.committed = stage.candidate;
    c.facts.move.committed_at = c.now;
  }
  if (Next end = leaving(c)) return end;
  if (claimed) return survey(c);
  return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
}

Next on(const Discarding&, const CallAccepted&, Context& c) { return look_again_soon(c); }

Next on(const Discarding&, const EffectFailed& failed, Context& c) {
  if (failed.failure == Failure::Missing) return look_again_soon(c);
  return call_failed(c, failed);
}

Survey as_known(const Survey& seen, const Context& c) {
  if (c.policy.fence) return as_fenced(seen);
  Survey result = seen;
  const Facts::Move& move = c.facts.move;
  for (SeenVolume& volume : result.volumes) {
    const bool marked = move.marked && volume.id == move.verified;  // EC2 took it
    if (marked && volume.role == Role::Candidate) volume.role = Role::Verified;
  }
  const bool fresh =
      move.committed_at != kNever && c.now - move.committed_at < c.policy.consistency_bound;
  if (!fresh) return result;
  std::erase_if(result.volumes, [&](const SeenVolume& it) { return it.id == move.original; });
  for (SeenVolume& volume : result.volumes) {
    if (volume.id != move.committed) continue;
    volume.discoverable = true;
    volume.role = Role::State;
  }
  return result;
}

// A stopped instance keeps its attachments, also when it never starts again; one that was attaching
// when it stopped stays so for ever.
bool held_by_stopped(const SeenVolume& volume) {
  return volume.holder && volume.holder_state == HolderState::Stopped &&
         volume.attachment != AttachmentState::Detaching;
}

// Only for the instance that holds and has claimed the current volume: every snapshot taken for a
// move and every candidate is obsolete then. One at a time; nullopt: nothing is left. `ours`: what
// has the job's state, which a stale survey may show as a copy that is free; such a call may be
// carried out when the volume is. `idle`: this instance uses none of what it holds.
std::optional<Command> leftover(const Survey& survey, const VolumeId& ours, const InstanceId& idle,
                                bool keep_newest) {
  for (const SeenVolume& volume : survey.volumes) {
    const bool free = volume.state == VolumeState::Available || volume.state == VolumeState::Error;
    if (!is_copy(volume) || volume.id == ours) continue;
    if (free && !volume.holder) return DeleteVolume{volume.id};
    // Attached by an agent that was killed, or by its late call.
    const bool here = volume.holder == idle && volume.attachment == AttachmentState::Attached;
    if (here || held_by_stopped(volume)) return DetachVolume{volume.id, volume.holder};
  }
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    if (snapshot.state == SnapshotState::Recoverable) continue;  // nor can it be deleted
    if (!keep_newest || !is_base(snapshot, survey)) return DeleteSnapshot{snapshot.id};
  }
  return std::nullopt;
}

// The volumes and snapshots of this job. Two jobs of one name share a tag, but not the first volume
// (survey.hpp).

Survey of_line(const Survey& survey, const VolumeId& known, const VolumeId& current) {
  VolumeId line = known;  // empty for an agent that adopted its trainer: it knows only the volume
  for (const SeenVolume& volume : survey.volumes) {
    if (volume.id == current) line = line_of(volume);
  }
  Survey ours;
  ours.data = survey.data;
  ours.epoch_line = survey.epoch_line;
  ours.epoch = survey.epoch;
  ours.epoch_holder = survey.epoch_holder;
  for (const SeenVolume& volume : survey.volumes) {
    const bool old_copy = is_copy(volume) && !volume.lineage && volume.parent == current;
    if (line_of(volume) == line || volume.id == current || old_copy) ours.volumes.push_back(volume);
  }
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    const bool old_copy = !snapshot.lineage && snapshot.parent == current;
    if (line_of(snapshot) == line || old_copy) ours.snapshots.push_back(snapshot);
  }
  return ours;
}

bool learn_line(const Survey& survey, Context& c) {
  if (c.facts.move.lineage) return false;
  for (const SeenVolume& volume : survey.volumes) {
    if (volume.id != c.facts.holding.volume) continue;
    c.facts.move.lineage = line_of(volume);
    c.facts.move.moves = volume.moves;
    return survey.epoch_line != c.facts.move.lineage;
  }
  return false;
}

Detail lines_left(const Survey& survey, VolumeId& line) {
  // A line that is known is kept while anything of it is shown: its copy may only be verified later
  // than another line's.
  const auto ours = [&](const auto& it) { return line_of(it) == line; };
  if (line && (std::any_of(survey.volumes.begin(), survey.volumes.end(), ours) ||
               std::any_of(survey.snapshots.begin(), survey.snapshots.end(), ours)))
    return {};
  std::vector<VolumeId> lines;
  const auto add = [&](const VolumeId& found) {
    if (std::find(lines.begin(), lines.end(), found) == lines.end()) lines.push_back(found);
  };
  for (const SeenVolume& volume : survey.volumes) {
    if (is_copy(volume) && volume.role == Role::Verified) add(line_of(volume));
  }
  if (lines.empty()) {
    for (const SeenSnapshot& snapshot : survey.snapshots) add(line_of(snapshot));
  }
  if (lines.empty()) return {};
  line = lines.front();
  std::string names;
  for (const VolumeId& it : lines) names += (names.empty() ? "lines of " : ", ") + it.str();
  return lines.size() > 1 ? Detail(names) : Detail();
}

// Snapshots and copies of a volume, and those that a move may use.

// Any other snapshot may lack what was written after it.
bool is_of_the_whole(const SeenSnapshot& it, const Policy& policy) {
  if (it.taken == Taken::Released) return it.age < policy.released_counts;
  return it.taken == Taken::Moving;
}

// The newest generation in which it was used, also where its tag was lost since: what was copied of
// it bears that of the copy.
std::uint32_t used_generation(const SeenVolume& volume, const Survey& survey) {
  std::uint32_t newest = volume.generation;
  for (const SeenSnapshot& it : survey.snapshots) {
    if (it.parent == volume.id) newest = std::max(newest, it.generation);
  }
  for (const SeenVolume& it : survey.volumes) {
    if (it.parent == volume.id) newest = std::max(newest, it.generation);
  }
  return newest;
}

std::optional<Detail> copy_of(const Survey& survey, const VolumeId& volume) {
  for (const SeenSnapshot& it : survey.snapshots)
    if (it.parent == volume && it.taken == Taken::Moving) return Detail(it.id.view());
  for (const SeenVolume& it : survey.volumes)
    if (it.parent == volume) return Detail(it.id.view());
  return std::nullopt;
}

}  // namespace spotter::decide
