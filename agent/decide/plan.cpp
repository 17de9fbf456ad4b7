// The one next change, given all that EC2 shows of the job's storage. Asked again after every
// change, so that it does not matter where an earlier agent, here or in another zone, was killed.
#include <algorithm>
#include <vector>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

using Volumes = std::vector<const SeenVolume*>;

bool is_current(const SeenVolume& volume) {
  return volume.discoverable && volume.role == Role::State && volume.state != VolumeState::Deleting;
}

// An original that was deleted may come back with its tags: EC2's recycle bin keeps it for days.
// Its line has moved on: to a volume that is the job's now, or, between the next commit and its
// promotion, to a copy of that. A verified copy of the volume itself proves nothing: its commit may
// be still to come.
bool is_superseded(const SeenVolume& volume, const Survey& survey) {
  return std::any_of(survey.volumes.begin(), survey.volumes.end(), [&](const SeenVolume& other) {
    if (line_of(other) != line_of(volume) || other.state == VolumeState::Deleting) return false;
    if (is_current(other)) return other.moves > volume.moves;
    return other.role == Role::Verified && other.state != VolumeState::Error &&
           other.moves > volume.moves + 1;
  });
}

Volumes current_volumes(const Survey& survey) {
  Volumes found;
  for (const SeenVolume& volume : survey.volumes) {
    if (is_current(volume) && !is_superseded(volume, survey)) found.push_back(&volume);
  }
  return found;
}

// The volume that EC2 says is attached to us, if it is not `except`.
const SeenVolume* other_attached_here(const Survey& survey, const Facts& facts,
                                      const VolumeId& except) {
  for (const SeenVolume& volume : survey.volumes) {
    if (volume.holder == facts.identity.instance && volume.id != except) return &volume;
  }
  return nullptr;
}

Detail names_of(const Volumes& volumes) {
  std::string names;
  for (const SeenVolume* volume : volumes) names += (names.empty() ? "" : ", ") + volume->id.str();
  return Detail(names);
}

// Releases a volume that is attached here (a copy that was not elected, or is of an older
// generation), then looks again.
Stage drop(const SeenVolume& volume, Context& c) {
  Facts::Holding& holding = c.facts.holding;
  holding.volume = volume.id;
  holding.attached = true;
  // After a restart of the agent it is not known whether it is mounted: unmounting settles it.
  holding.mounted = true;
  c.facts.move.verified = {};
  return release_storage(c, After::Survey);
}

Stage attached_here(const SeenVolume& volume, bool copied, Context& c) {
  Facts::Holding& holding = c.facts.holding;
  holding.volume = volume.id;
  holding.purpose = Purpose::Train;
  holding.attached = true;
  holding.ours_to_format = volume.ours_to_format && (volume.from.empty() || !volume.parent.empty());
  if (holding.generation != 0 && volume.generation == holding.generation) {
    // Another agent is making a copy of it: nothing is written before it can see our claim.
    const Duration left = holding.claimed_at == kNever
                              ? Duration::zero()
                              : holding.claimed_at + c.policy.consistency_bound - c.now;
    const bool unseen = left > Duration::zero();
    if (copied && unseen) return wait(c, Wait::VolumeChanging, left);
    return bring_up(c);
  }
  // Our claim is not visible yet. After the bound a late call of an earlier agent has overwritten
  // it.
  const bool fresh =
      holding.claimed_at != kNever && c.now - holding.claimed_at < c.policy.consistency_bound;
  if (holding.generation == volume.generation + 1 && fresh) {
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  }
  c.ask(ClaimVolume{volume.id, volume.generation + 1}, c.policy.ec2_call);
  return Claiming{volume.id, volume.generation + 1};
}

// Attaching or detaching. When it takes too long, the volume is attached again; a detach that is
// stuck needs a person, or the end of the instance.
Stage changing_here(const SeenVolume& volume, Context& c) {
  Facts::Holding& holding = c.facts.holding;
  holding.volume = volume.id;
  holding.attached = true;
  if (holding.changing_since == kNever) holding.changing_since = c.now;
  if (c.now - holding.changing_since < c.policy.attaching_limit) {
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  }
  if (volume.attachment == AttachmentState::Detaching) {
    return block(c, Block::VolumeStuck, Detail(volume.id.view()));
  }
  holding.changing_since = kNever;
  return reattach(c, Block::VolumeStuck);
}

// A volume that another instance holds is waited for, and detached only when that instance is known
// to be stopped.
Stage held_by_other(const SeenVolume& volume, Context& c) {
  if (held_by_stopped(volume)) {
    c.ask(DetachVolume{volume.id, volume.holder}, c.policy.ec2_call);
    return Discarding{};
  }
  Time& since = c.facts.holding.changing_since;
  if (volume.attachment != AttachmentState::Detaching) {
    since = kNever;
    return wait(c, Wait::VolumeHeld, c.policy.poll_held);
  }
  if (since == kNever) since = c.now;
  if (c.now - since < c.policy.attaching_limit) {
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  }
  return block(c, Block::VolumeStuck, Detail(volume.id.view()));
}

Stage use_volume(const SeenVolume& volume, Purpose purpose, bool copied, Context& c) {
  Facts::Holding& holding = c.facts.holding;
  if (volume.state == VolumeState::Error) {
    return block(c, Block::VolumeBroken, Detail(volume.id.view()));
  }
  if (volume.holder == c.facts.identity.instance) {
    const bool leaving_us = holding.released == volume.id && holding.released_at != kNever &&
                            c.now - holding.released_at < c.policy.consistency_bound;
    if (leaving_us) return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
    if (volume.attachment != AttachmentState::Attached) return changing_here(volume, c);
    holding.changing_since = kNever;
    holding.attached_as = volume.attached_as;
    if (purpose == Purpose::Train) return attached_here(volume, copied, c);
    holding.volume = volume.id;
    holding.purpose = purpose;
    holding.attached = true;
    holding.ours_to_format = volume.ours_to_format;
    return bring_up(c);
  }
  if (volume.holder) return held_by_other(volume, c);
  if (volume.state != VolumeState::Available) {
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  }
  return attach(c, volume.id, purpose);
}

const SeenVolume* candidate_here(const Survey& survey, const VolumeId& parent,
                                 std::uint32_t generation, const Facts& facts) {
  const SeenVolume* best = nullptr;
  for (const SeenVolume& volume : survey.volumes) {
    const bool fits = is_copy(volume) && volume.parent == parent &&
                      volume.generation == generation && volume.zone == facts.identity.zone &&
                      volume.state != VolumeState::Deleting;
    if (!fits) continue;
    if (volume.holder == facts.identity.instance) return &volume;
    if (!best || volume.id < best->id) best = &volume;
  }
  return best;
}

Stage settle_candidate(const SeenVolume& candidate, Context& c) {
  Facts& facts = c.facts;
  if (candidate.role == Role::Candidate && facts.move.verified_at == kNever) {
    c.ask(MarkVerified{candidate.id}, c.policy.ec2_call);
    return MarkingVerified{candidate.id};
  }
  if (candidate.role == Role::Candidate) {  // the tag is written, and not visible yet
    return wait(c, Wait::CandidateSettling, c.policy.poll_attachment);
  }
  if (facts.move.verified_at == kNever) facts.move.verified_at = c.now;
  const Duration left = facts.move.verified_at + c.policy.consistency_bound - c.now;
  if (left > Duration::zero()) return wait(c, Wait::CandidateSettling, left);
  c.ask(DeleteVolume{candidate.parent}, c.policy.ec2_call);
  return Committing{candidate.parent};
}

// Has this session verified `volume` itself, and is it still attached here?
bool is_verified_here(const SeenVolume& volume, const Facts& facts) {
  return facts.move.verified && facts.move.verified == volume.id &&
         volume.holder == facts.identity.instance;
}

}  // namespace

std::optional<Detail> copy_of(const Survey& survey, const VolumeId& volume) {
  for (const SeenSnapshot& it : survey.snapshots)
    if (it.parent == volume && !it.ahead) return Detail(it.id.view());
  for (const SeenVolume& it : survey.volumes)
    if (it.parent == volume) return Detail(it.id.view());
  return std::nullopt;
}

const SeenVolume* current_volume(const Survey& survey) {
  const Volumes current = current_volumes(survey);
  return current.empty() ? nullptr : current.front();
}

bool is_done(const Survey& survey) {
  return std::any_of(survey.volumes.begin(), survey.volumes.end(), [](const SeenVolume& volume) {
    return volume.done && (volume.discoverable || volume.role == Role::Verified);
  });
}

Stage advance_candidate(const Survey& survey, const VolumeId& parent, std::uint32_t generation,
                        bool lost, Context& c) {
  Facts& facts = c.facts;
  if (const SeenVolume* candidate = candidate_here(survey, parent, generation, facts)) {
    facts.move.created_at = kNever;
    if (is_verified_here(*candidate, facts)) {
      facts.holding.volume = candidate->id;
      facts.holding.attached = true;  // an attach by an old picture may have been refused since
      return settle_candidate(*candidate, c);
    }
    if (candidate->state != VolumeState::Error)
      return use_volume(*candidate, Purpose::Verify, false, c);
    ++facts.move.create_attempt;
    c.ask(DeleteVolume{candidate->id}, c.policy.ec2_call);
    return Discarding{};
  }
  const SeenSnapshot* best = nullptr;
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    if (snapshot.parent != parent || snapshot.generation != generation) continue;
    if (snapshot.ahead && !lost) continue;  // lacks what was written after it
    if (snapshot.state == SnapshotState::Failed) {
      c.ask(DeleteSnapshot{snapshot.id}, c.policy.ec2_call);
      return Discarding{};
    }
    // In the recycle bin: a person may restore it, we can neither use nor delete it.
    if (snapshot.state == SnapshotState::Recoverable) continue;
    if (!best || snapshot.started > best->started) best = &snapshot;
  }
  if (best && best->state == SnapshotState::Completed) {
    if (facts.move.created_at != kNever) {
      if (c.now - facts.move.created_at < c.policy.consistency_bound) {
        return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
      }
      facts.move.created_at = kNever;
      ++facts.move.create_attempt;
      return block(c, Block::CopyVanished, {});
    }
    c.ask(CreateVolume{facts.identity.zone, best->id, parent, generation, facts.move.lineage,
                       best->moves + 1, facts.move.create_attempt},
          c.policy.ec2_call);
    return CreatingCandidate{best->id};
  }
  const bool just_asked = facts.move.snapshot_asked_at != kNever &&
                          c.now - facts.move.snapshot_asked_at < c.policy.consistency_bound;
  if (best || just_asked) return wait(c, Wait::SnapshotPending, c.policy.poll_snapshot);
  c.ask(CreateSnapshot{parent, generation, facts.move.lineage, facts.move.moves},
        c.policy.ec2_call);
  return Snapshotting{parent};
}

namespace {

// The volume is in another zone: it can only be followed by a copy.
Stage migrate(const Survey& survey, const SeenVolume& volume, Context& c) {
  if (const SeenVolume* held = other_attached_here(survey, c.facts, volume.id)) {
    const bool fresh = held->parent == volume.id && held->generation == volume.generation;
    if (!fresh || volume.state != VolumeState::Available) return drop(*held, c);
  }
  if (volume.state == VolumeState::Error) {
    return block(c, Block::VolumeBroken, Detail(volume.id.view()));
  }
  if (volume.holder) return held_by_other(volume, c);
  if (volume.state != VolumeState::Available) {
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  }
  return advance_candidate(survey, volume.id, volume.generation, false, c);
}

}  // namespace

const SeenVolume* elect(const Survey& survey) {
  const SeenVolume* best = nullptr;
  for (const SeenVolume& volume : survey.volumes) {
    const bool able = volume.role == Role::Verified && volume.state != VolumeState::Deleting &&
                      volume.state != VolumeState::Error;
    if (!able) continue;
    // A copy of an earlier generation lacks what was written since, whatever its id.
    const auto age = [](const SeenVolume& it) { return std::pair(it.generation, it.moves); };
    const bool newer = best && age(volume) > age(*best);
    const bool tie = best && age(volume) == age(*best) && volume.id < best->id;
    if (!best || newer || tie) best = &volume;
  }
  return best;
}

namespace {

Stage promote_candidate(const Survey& survey, const SeenVolume& best, Context& c) {
  const SeenVolume* held = other_attached_here(survey, c.facts, best.id);
  if (held) return drop(*held, c);  // ours was not elected
  const bool elsewhere = best.holder && best.holder != c.facts.identity.instance;
  if (elsewhere && best.holder_state == HolderState::Alive) return held_by_other(best, c);
  c.ask(PromoteVolume{best.id}, c.policy.ec2_call);
  return Promoting{best.id};
}

// No volume carries the discovery tag. Either a migration was committed and its candidate is not
// yet promoted, or the volume was lost, or there never was one.
Stage recover(const Survey& survey, const Survey& everything, Context& c) {
  const SeenVolume* best = elect(survey);
  const SeenSnapshot* newest = nullptr;
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    if (snapshot.state != SnapshotState::Completed) continue;
    if (!newest || snapshot.started > newest->started) newest = &snapshot;
  }
  // Only a person removes the discovery tag of the job's volume, and only a person can restore it.
  for (const SeenVolume& volume : (best ? survey : everything).volumes) {
    const bool lost = volume.role == Role::State && volume.state != VolumeState::Deleting;
    if (lost && !volume.discoverable) return block(c, Block::NoVolume, Detail(volume.id.view()));
  }
  if (!best && !newest) return block(c, Block::NoVolume, {});
  Facts::Move& move = c.facts.move;
  // Another candidate may have been verified or promoted just now: each has its own bound.
  const VolumeId elected = best ? best->id : VolumeId();
  if (move.parent_gone_since == kNever || move.elected != elected) {
    move.parent_gone_since = c.now;
    move.elected = elected;
  }
  const Duration left = move.parent_gone_since + 2 * c.policy.consistency_bound - c.now;
  if (left > Duration::zero()) {
    return wait(c, Wait::CommitSettling, std::min<Duration>(left, c.policy.poll_snapshot));
  }
  if (best) return promote_candidate(survey, *best, c);
  return advance_candidate(survey, newest->parent, newest->generation, true, c);
}

Next plan_to_fill(const Survey& survey, const SeenVolume* volume, Context& c) {
  if (!volume) return block(c, Block::NoVolume, {});
  if (const auto by = in_use(survey, *volume, c)) return block(c, Block::NotFree, *by);
  const bool copied = copy_of(survey, volume->id).has_value();
  return use_volume(*volume, Purpose::Train, copied, c);
}

Next check_single(const Survey& survey, Context& c) {
  Volumes current = current_volumes(survey);
  // Between a commit and the promotion another volume may get the tag that never was the job's: it
  // is a second one, too.
  if (current.size() == 1 && current.front()->generation == 0 && current.front()->parent.empty()) {
    const SeenVolume* elected = elect(survey);
    if (elected && elected->parent != current.front()->id) current.push_back(elected);
  }
  if (current.size() > 1) return block(c, Block::TwoVolumes, names_of(current));
  return std::nullopt;
}

Next plan_own(const Survey& survey, const Survey& everything, Context& c) {
  const SeenVolume* current = current_volume(survey);
  if (c.policy.fills) return plan_to_fill(survey, current, c);
  if (is_done(survey)) {
    c.facts.exit.done = true;
    if (const SeenVolume* held = other_attached_here(survey, c.facts, {})) {
      Facts::Holding& holding = c.facts.holding;
      holding.volume = held->id;
      holding.mounted = holding.attached = true;  // unmounting settles what is not known
    }
    return release_storage(c, After::Finish);
  }
  if (!current) return recover(survey, everything, c);
  c.facts.move.parent_gone_since = kNever;
  c.facts.move.moves = current->moves;
  const SeenVolume& volume = *current;
  if (volume.zone != c.facts.identity.zone) return migrate(survey, volume, c);
  if (const SeenVolume* held = other_attached_here(survey, c.facts, volume.id))
    return drop(*held, c);
  return use_volume(volume, Purpose::Train, copy_of(survey, volume.id).has_value(), c);
}

}  // namespace

Next plan(const Survey& everything, Context& c) {
  VolumeId line = c.facts.move.lineage;
  VolumeId current;
  if (const SeenVolume* it = current_volume(everything)) {
    line = line_of(*it);
    current = it->id;
  } else if (const Detail lines = lines_left(everything, line)) {
    return block(c, Block::TwoVolumes, lines);
  }
  if (const Next second = check_single(everything, c)) return second;
  c.facts.move.lineage = line;
  return plan_own(of_line(everything, line, current), everything, c);
}

}  // namespace spotter::decide
