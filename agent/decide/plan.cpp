// Given all that can be seen of the job's storage: what is the one next thing to do? Asked anew
// after every change, so that an agent killed anywhere, here or in another zone, carries on.
#include <algorithm>
#include <vector>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

using Volumes = std::vector<const SeenVolume*>;

bool is_current(const SeenVolume& volume) {
  return volume.discoverable && volume.role == Role::State && volume.state != VolumeState::Deleting;
}

// A volume that was deleted for its copy may come back with its tags: EC2's recycle bin keeps it
// for days. Its line has moved on from it: to a volume that is the job's now, or, between the next
// commit and its promotion, to a copy of that. A verified copy of the volume itself says nothing:
// the commit may be still to come.
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
const SeenVolume* other_in_hand(const Survey& survey, const Facts& facts, const VolumeId& except) {
  for (const SeenVolume& volume : survey.volumes) {
    if (volume.holder == facts.instance && volume.id != except) return &volume;
  }
  return nullptr;
}

Detail names_of(const Volumes& volumes) {
  std::string names;
  for (const SeenVolume* volume : volumes) names += (names.empty() ? "" : ", ") + volume->id.str();
  return Detail(names);
}

// Lets go of what is in hand (a copy that lost, or is of an older generation), then looks again.
Stage drop(const SeenVolume& volume, Context& c) {
  c.facts.volume = volume.id;
  c.facts.attached = true;
  // After a restart of the agent it is not known whether it is mounted: unmounting settles it.
  c.facts.mounted = true;
  c.facts.proven = {};
  return let_go(c, After::Survey);
}

Stage attached_here(const SeenVolume& volume, bool copied, Context& c) {
  Facts& facts = c.facts;
  facts.volume = volume.id;
  facts.purpose = Purpose::Train;
  facts.attached = true;
  facts.ours_to_format = volume.ours_to_format && (volume.from.empty() || !volume.parent.empty());
  if (facts.generation != 0 && volume.generation == facts.generation) {
    // Somebody is making a copy of it: nothing is written before they can see our claim.
    const Duration left = facts.claimed_at == kNever
                              ? Duration::zero()
                              : facts.claimed_at + c.policy.consistency_bound - c.now;
    const bool unseen = left > Duration::zero();
    if (copied && unseen) return wait(c, Wait::VolumeChanging, left);
    return bring_up(c);
  }
  // Written, not visible yet. After the bound it was overwritten (by a dead agent's late call).
  const bool fresh =
      facts.claimed_at != kNever && c.now - facts.claimed_at < c.policy.consistency_bound;
  if (facts.generation == volume.generation + 1 && fresh) {
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  }
  c.ask(ClaimVolume{volume.id, volume.generation + 1}, c.policy.ec2_call);
  return Claiming{volume.id, volume.generation + 1};
}

// Attaching or detaching, and it should be over soon. Stuck, only a person or the end of the
// instance helps a detach; an attachment is made anew.
Stage changing_here(const SeenVolume& volume, Context& c) {
  Facts& facts = c.facts;
  facts.volume = volume.id;
  facts.attached = true;
  if (facts.changing_since == kNever) facts.changing_since = c.now;
  if (c.now - facts.changing_since < c.policy.attaching_limit) {
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  }
  if (volume.attachment == AttachmentState::Detaching) {
    return block(c, Block::VolumeStuck, Detail(volume.id.view()));
  }
  facts.changing_since = kNever;
  return attach_anew(c, Block::VolumeStuck);
}

// A volume in another's hands is waited for, never forced, unless its holder is proven stopped.
Stage held_by_other(const SeenVolume& volume, Context& c) {
  if (held_by_stopped(volume)) {
    c.ask(DetachVolume{volume.id, volume.holder}, c.policy.ec2_call);
    return Discarding{};
  }
  if (volume.attachment != AttachmentState::Detaching) {
    c.facts.changing_since = kNever;
    return wait(c, Wait::VolumeHeld, c.policy.poll_held);
  }
  if (c.facts.changing_since == kNever) c.facts.changing_since = c.now;
  if (c.now - c.facts.changing_since < c.policy.attaching_limit) {
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  }
  return block(c, Block::VolumeStuck, Detail(volume.id.view()));
}

Stage use_volume(const SeenVolume& volume, Purpose purpose, bool copied, Context& c) {
  if (volume.state == VolumeState::Error) {
    return block(c, Block::VolumeBroken, Detail(volume.id.view()));
  }
  if (volume.holder == c.facts.instance) {
    const bool leaving_us = c.facts.let_go == volume.id && c.facts.let_go_at != kNever &&
                            c.now - c.facts.let_go_at < c.policy.consistency_bound;
    if (leaving_us) return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
    if (volume.attachment != AttachmentState::Attached) return changing_here(volume, c);
    c.facts.changing_since = kNever;
    c.facts.attached_as = volume.attached_as;
    if (purpose == Purpose::Train) return attached_here(volume, copied, c);
    c.facts.volume = volume.id;
    c.facts.purpose = purpose;
    c.facts.attached = true;
    c.facts.ours_to_format = volume.ours_to_format;
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
                      volume.generation == generation && volume.zone == facts.zone &&
                      volume.state != VolumeState::Deleting;
    if (!fits) continue;
    if (volume.holder == facts.instance) return &volume;
    if (!best || volume.id < best->id) best = &volume;
  }
  return best;
}

Stage settle_candidate(const SeenVolume& candidate, Context& c) {
  Facts& facts = c.facts;
  if (candidate.role == Role::Candidate && facts.proven_at == kNever) {
    c.ask(MarkVerified{candidate.id}, c.policy.ec2_call);
    return Attesting{candidate.id};
  }
  if (candidate.role == Role::Candidate) {  // the tag is written, and not visible yet
    return wait(c, Wait::CandidateSettling, c.policy.poll_attachment);
  }
  if (facts.proven_at == kNever) facts.proven_at = c.now;
  const Duration left = facts.proven_at + c.policy.consistency_bound - c.now;
  if (left > Duration::zero()) return wait(c, Wait::CandidateSettling, left);
  c.ask(DeleteVolume{candidate.parent}, c.policy.ec2_call);
  return Committing{candidate.parent};
}

// Has this instance proved `volume` itself, and is it still in hand?
bool is_proven(const SeenVolume& volume, const Facts& facts) {
  return facts.proven && facts.proven == volume.id && volume.holder == facts.instance;
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

Stage raise_candidate(const Survey& survey, const VolumeId& parent, std::uint32_t generation,
                      bool lost, Context& c) {
  Facts& facts = c.facts;
  if (const SeenVolume* candidate = candidate_here(survey, parent, generation, facts)) {
    facts.created_at = kNever;
    if (is_proven(*candidate, facts)) {
      facts.volume = candidate->id;
      facts.attached = true;  // an attach by an old picture may have been refused since
      return settle_candidate(*candidate, c);
    }
    if (candidate->state != VolumeState::Error)
      return use_volume(*candidate, Purpose::Prove, false, c);
    ++facts.create_attempt;
    c.ask(DeleteVolume{candidate->id}, c.policy.ec2_call);
    return Discarding{};
  }
  const SeenSnapshot* best = nullptr;
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    if (snapshot.parent != parent || snapshot.generation != generation) continue;
    if (snapshot.ahead && !lost) continue;  // lacks what was written since
    if (snapshot.state == SnapshotState::Failed) {
      c.ask(DeleteSnapshot{snapshot.id}, c.policy.ec2_call);
      return Discarding{};
    }
    // In the recycle bin: a person may bring it back, we can neither use nor delete it.
    if (snapshot.state == SnapshotState::Recoverable) continue;
    if (!best || snapshot.started > best->started) best = &snapshot;
  }
  if (best && best->state == SnapshotState::Completed) {
    if (facts.created_at != kNever) {
      if (c.now - facts.created_at < c.policy.consistency_bound) {
        return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
      }
      facts.created_at = kNever;
      ++facts.create_attempt;
      return block(c, Block::CopyVanished, {});
    }
    c.ask(CreateVolume{facts.zone, best->id, parent, generation, facts.lineage, best->moves + 1,
                       facts.create_attempt},
          c.policy.ec2_call);
    return CreatingCandidate{best->id};
  }
  const bool just_asked = facts.snapshot_asked_at != kNever &&
                          c.now - facts.snapshot_asked_at < c.policy.consistency_bound;
  if (best || just_asked) return wait(c, Wait::SnapshotPending, c.policy.poll_snapshot);
  c.ask(CreateSnapshot{parent, generation, facts.lineage, facts.moves}, c.policy.ec2_call);
  return Snapshotting{parent};
}

namespace {

// The volume is in another zone: it can only be followed by a copy.
Stage migrate(const Survey& survey, const SeenVolume& volume, Context& c) {
  if (const SeenVolume* held = other_in_hand(survey, c.facts, volume.id)) {
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
  return raise_candidate(survey, volume.id, volume.generation, false, c);
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
  const SeenVolume* held = other_in_hand(survey, c.facts, best.id);
  if (held) return drop(*held, c);  // ours lost
  const bool elsewhere = best.holder && best.holder != c.facts.instance;
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
  // A volume of the job that lost its tag is a person's doing, and for a person to mend.
  for (const SeenVolume& volume : (best ? survey : everything).volumes) {
    const bool lost = volume.role == Role::State && volume.state != VolumeState::Deleting;
    if (lost && !volume.discoverable) return block(c, Block::NoVolume, Detail(volume.id.view()));
  }
  if (!best && !newest) return block(c, Block::NoVolume, {});
  // Another candidate may have been verified or promoted a moment ago: each is waited for anew.
  const VolumeId elected = best ? best->id : VolumeId();
  if (c.facts.parent_gone_since == kNever || c.facts.elected != elected) {
    c.facts.parent_gone_since = c.now;
    c.facts.elected = elected;
  }
  const Duration left = c.facts.parent_gone_since + 2 * c.policy.consistency_bound - c.now;
  if (left > Duration::zero()) {
    return wait(c, Wait::CommitSettling, std::min<Duration>(left, c.policy.poll_snapshot));
  }
  if (best) return promote_candidate(survey, *best, c);
  return raise_candidate(survey, newest->parent, newest->generation, true, c);
}

Next plan_to_fill(const Survey& survey, const SeenVolume* volume, Context& c) {
  if (!volume) return block(c, Block::NoVolume, {});
  if (const auto by = in_use(survey, *volume, c)) return block(c, Block::NotFree, *by);
  const bool copied = copy_of(survey, volume->id).has_value();
  return use_volume(*volume, Purpose::Train, copied, c);
}

Next check_single(const Survey& survey, Context& c) {
  Volumes current = current_volumes(survey);
  // Between a commit and its promotion a volume that never was the job's has the tag: it is a
  // second one all the same.
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
    c.facts.done = true;
    if (const SeenVolume* held = other_in_hand(survey, c.facts, {})) {
      c.facts.volume = held->id;
      c.facts.mounted = c.facts.attached = true;  // unmounting settles what is not known
    }
    return let_go(c, After::Finish);
  }
  if (!current) return recover(survey, everything, c);
  c.facts.parent_gone_since = kNever;
  c.facts.moves = current->moves;
  const SeenVolume& volume = *current;
  if (volume.zone != c.facts.zone) return migrate(survey, volume, c);
  if (const SeenVolume* held = other_in_hand(survey, c.facts, volume.id)) return drop(*held, c);
  return use_volume(volume, Purpose::Train, copy_of(survey, volume.id).has_value(), c);
}

}  // namespace

Next plan(const Survey& everything, Context& c) {
  VolumeId line = c.facts.lineage;
  VolumeId current;
  if (const SeenVolume* it = current_volume(everything)) {
    line = line_of(*it);
    current = it->id;
  } else if (const Detail lines = lines_left(everything, line)) {
    return block(c, Block::TwoVolumes, lines);
  }
  if (const Next second = check_single(everything, c)) return second;
  c.facts.lineage = line;
  return plan_own(of_line(everything, line, current), everything, c);
}

}  // namespace spotter::decide
