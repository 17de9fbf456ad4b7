// The one next change, given all that EC2 shows of the job's storage. Asked again after every
// change, so that it does not matter where an earlier agent, here or in another zone, was killed.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "agent/decide/describe.hpp"
#include "agent/decide/pace.hpp"
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

Detail names_of(const Volumes& volumes) {
  std::string names;
  for (const SeenVolume* volume : volumes) names += (names.empty() ? "" : ", ") + volume->id.str();
  return Detail(names);
}

// No other agent uses or copies it: its tags only show that, and nothing waits for them.
Stage claim_fenced(const SeenVolume& volume, Context& c) {
  if (c.facts.holding.generation == volume.generation) return bring_up(c);
  if (volume.named) {
    c.ask(ClaimVolume{volume.id, volume.generation}, c.policy.ec2_call);
    return Claiming{volume.id, volume.generation};
  }
  c.ask(PromoteVolume{volume.id, volume.generation}, c.policy.ec2_call);
  return Promoting{volume.id, {}, volume.generation};
}

Stage attached_here(const SeenVolume& volume, const Survey& survey, Context& c) {
  Facts::Holding& holding = c.facts.holding;
  holding.volume = volume.id;
  holding.purpose = Purpose::Train;
  holding.attached = true;
  holding.ours_to_format = volume.ours_to_format && (volume.from.empty() || !volume.parent.empty());
  if (c.policy.fence) return claim_fenced(volume, c);
  if (holding.generation != 0 && volume.generation == holding.generation) {
    // Another agent is making a copy of it: nothing is written before it can see our claim.
    const Duration left =
        holding.claimed_at == kNever ? Duration::zero() : claim_known_at(c) - c.now;
    const bool unseen = left > Duration::zero();
    const bool copied = copy_of(survey, volume.id).has_value();
    if (copied && unseen) return wait(c, Wait::VolumeChanging, left);
    return bring_up(c);
  }
  // Our claim is not visible yet. After the bound a late call of an earlier agent has overwritten
  // it.
  const bool fresh =
      holding.claimed_at != kNever && c.now - holding.claimed_at < c.policy.consistency_bound;
  if (holding.generation > volume.generation && fresh)
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  const std::uint32_t next = used_generation(volume, survey) + 1;
  c.ask(ClaimVolume{volume.id, next}, c.policy.ec2_call);
  return Claiming{volume.id, next};
}

// Attaching or detaching. When it takes too long, the volume is attached again; a detach that is
// stuck needs a person, or the end of the instance.
Stage changing_here(const SeenVolume& volume, Context& c) {
  Facts::Holding& holding = c.facts.holding;
  holding.volume = volume.id;
  holding.attached = true;
  if (holding.changing_since == kNever) holding.changing_since = c.now;
  if (c.now - holding.changing_since < c.policy.attaching_limit)
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  if (volume.attachment == AttachmentState::Detaching)
    return block(c, Block::VolumeStuck, Detail(volume.id.view()));
  holding.changing_since = kNever;
  return reattach(c, Block::VolumeStuck);
}

Stage use_volume(const SeenVolume& volume, Purpose purpose, const Survey& survey, Context& c) {
  Facts::Holding& holding = c.facts.holding;
  if (volume.state == VolumeState::Error)
    return block(c, Block::VolumeBroken, Detail(volume.id.view()));
  if (volume.holder == c.facts.identity.instance) {
    if (!holding.attached || holding.volume != volume.id) holding.unproven = true;
    const bool leaving_us = holding.released == volume.id && holding.released_at != kNever &&
                            c.now - holding.released_at < c.policy.consistency_bound;
    if (leaving_us) return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
    if (volume.attachment != AttachmentState::Attached) return changing_here(volume, c);
    holding.changing_since = kNever;
    holding.attached_as = volume.attached_as;
    if (purpose == Purpose::Train) return attached_here(volume, survey, c);
    holding.volume = volume.id;
    holding.purpose = purpose;
    holding.attached = true;
    holding.ours_to_format = volume.ours_to_format;
    return bring_up(c);
  }
  if (volume.holder) return held_by_other(volume, c);
  if (volume.state != VolumeState::Available)
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
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

Stage settle_candidate(const Survey& survey, const SeenVolume& candidate, Context& c) {
  Facts& facts = c.facts;
  if (candidate.role == Role::Candidate && !facts.move.marked) {
    c.ask(MarkVerified{candidate.id}, c.policy.ec2_call);
    return MarkingVerified{candidate.id};
  }
  if (c.policy.fence) return commit_by_epoch(survey, candidate, c);
  c.ask(DeleteVolume{candidate.parent}, c.policy.commit_call);
  return Committing{candidate.parent, c.now, candidate.generation + 1};
}

// Has this session verified `volume` itself, and is it still attached here?
bool is_verified_here(const SeenVolume& volume, const Facts& facts) {
  return facts.move.verified && facts.move.verified == volume.id &&
         volume.holder == facts.identity.instance;
}

// The volume is in another zone: it can only be followed by a copy.
Stage migrate(const Survey& survey, const SeenVolume& volume, Context& c) {
  if (const SeenVolume* held = other_attached_here(survey, c.facts, volume.id)) {
    const bool fresh = held->parent == volume.id && held->generation == volume.generation;
    const bool busy = !c.policy.fence && volume.state != VolumeState::Available;
    if (!fresh || busy) return drop(*held, c);
  }
  if (volume.state == VolumeState::Error)
    return block(c, Block::VolumeBroken, Detail(volume.id.view()));
  // Whoever wrote to it had released it, or was terminated, before our epoch was written: it does
  // not change any more, also while EC2 has yet to detach it. But who has it attached and lives may
  // be a person, or an agent that knows of no fence.
  const bool goes =
      volume.attachment == AttachmentState::Detaching || volume.holder_state == HolderState::Gone;
  const bool still = c.policy.fence && volume.state == VolumeState::InUse && goes;
  if (volume.holder && !still) return held_by_other(volume, c);
  if (volume.state != VolumeState::Available && !still)
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  return advance_candidate(survey, volume.id, volume.generation, false, c);
}

Next plan_to_fill(const Survey& survey, const SeenVolume* volume, Context& c) {
  if (!volume) return block(c, Block::NoVolume, {});
  if (const auto by = in_use(survey, *volume, c)) return block(c, Block::NotFree, *by);
  if (c.policy.fence) {
    if (const Next before = take_epoch(survey, volume, c)) return before;
  }
  return use_volume(*volume, Purpose::Train, survey, c);
}

Next check_single(const Survey& survey, Context& c) {
  Volumes current = current_volumes(survey);
  // Between a commit and the promotion another volume may get the tag that never was the job's: it
  // is a second one, too.
  if (current.size() == 1 && current.front()->generation == 0 && current.front()->parent.empty()) {
    const SeenVolume* elected = elect(survey);
    if (elected && elected->parent != current.front()->id) current.push_back(elected);
    // And EC2 may not yet show that the copy was verified.
    const Time gone = c.facts.move.parent_gone_since;
    const bool settles = gone != kNever && c.now < gone + 2 * c.policy.consistency_bound;
    if (!elected && settles) return wait(c, Wait::CommitSettling, c.policy.poll_snapshot);
  }
  if (current.size() > 1) return block(c, Block::TwoVolumes, names_of(current));
  return std::nullopt;
}

Next plan_own(const Survey& survey, const Survey& everything, Context& c) {
  const SeenVolume* current = current_volume(survey);
  if (c.policy.fills) return plan_to_fill(survey, current, c);
  if (const SeenVolume* done = done_volume(survey, {})) {
    c.facts.exit.done = true;
    Facts::Holding& holding = c.facts.holding;
    if (const SeenVolume* held = other_attached_here(survey, c.facts, {})) {
      holding.volume = held->id;
      holding.mounted = holding.attached = true;  // unmounting settles what is not known
    }
    if (!holding.attached) holding.volume = done->id;
    holding.purpose = holding.volume == done->id ? Purpose::Train : Purpose::Verify;
    return next_release_step(c,
                             ReleaseGoal::Finish);  // what `done` stands for was synced before it
  }
  if (c.policy.fence) {
    if (const Next before = take_epoch(survey, current, c)) return before;
  }
  if (!current) return recover(survey, everything, c);
  c.facts.move.parent_gone_since = kNever;
  c.facts.move.moves = current->moves;
  const SeenVolume& volume = *current;
  if (volume.zone != c.facts.identity.zone) return migrate(survey, volume, c);
  if (const SeenVolume* held = other_attached_here(survey, c.facts, volume.id))
    return drop(*held, c);
  return use_volume(volume, Purpose::Train, survey, c);
}

// A change that EC2 takes, or may have taken, and never shows would be made again with every look
// at the storage: each time at once, and for ever. It is spaced out, and after many that were taken
// a person is asked; an outage, in which nobody knows, is waited out.

using Target = ShortText<31>;

// The object that a command changes at EC2; empty: it changes none.
template <class It>
Target target_of(const It& it) {
  if constexpr (OneOf<It, AttachVolume, DetachVolume, ClaimVolume, CreateSnapshot, MarkVerified,
                      PromoteVolume, DeleteVolume>)
    return it.volume.view();
  else if constexpr (OneOf<It, CreateVolume, DeleteSnapshot>)
    return it.snapshot.view();
  // Each of the others is named: a new command does not compile before somebody has chosen. (What
  // was taken of WriteEpoch is shown at once.)
  else {
    static_assert(
        OneOf<It, LookAtHost, ReadIdentity, ReadFleet, SurveyStorage, MarkDone, MarkPrepared,
              WriteEpoch, CancelFleet, ScaleFleetToZero, GiveBackInstance, LeaveFleet,
              CompleteLifecycle, FindDevice, InspectDisk, MakeFilesystem, Mount, Unmount,
              PrepareShare, ReleaseShare, PrepareData, ReleaseData, ReadLedger, WriteLedger,
              SyncStorage, SendResult, VerifyCheckpoints, AwaitGpus, FetchCode, FillVolume,
              StartTrainer, PaceTrainer, StopTrainer, KillTrainer, Abandon, Exit>);
    return {};
  }
}

// The change that is awaited; kind 0: none.
Facts::Change asked_for(const Context& c) {
  for (const Effect& effect : c.effects) {
    const Target of = std::visit([](const auto& it) { return target_of(it); }, effect.what);
    if (of && effect.id == c.state.awaited) {
      Facts::Change change;
      change.kind = effect.what.index();
      change.of = of;
      change.asked = effect.id;
      change.asked_at = c.now;
      return change;
    }
  }
  return {};
}

Duration pause_after(const Facts::Change& change, const Policy& policy) {
  const std::uint32_t taken = change.taken + change.unsure;
  if (taken <= policy.changes_at_once) return Duration{0};
  if (taken >= policy.changes_in_vain) return 2 * policy.retry_last;
  return backoff(policy, taken - policy.changes_at_once);
}

Stage put_off(const Facts::Change& change, std::string_view command, Duration left, Context& c) {
  if (change.taken < c.policy.changes_in_vain) return wait(c, Wait::Retry, left);
  const std::string what =
      std::string(command) + " " + change.of.str() + ", " + std::to_string(change.taken) + " times";
  return block(c, Block::ChangeInVain, Detail(what));
}

}  // namespace

const SeenVolume* other_attached_here(const Survey& survey, const Facts& facts,
                                      const VolumeId& except) {
  for (const SeenVolume& volume : survey.volumes) {
    if (volume.holder == facts.identity.instance && volume.id != except) return &volume;
  }
  return nullptr;
}

// A copy that was not elected, or is of an older generation.
Stage drop(const SeenVolume& volume, Context& c) {
  Facts::Holding& holding = c.facts.holding;
  holding.volume = volume.id;
  holding.attached = true;
  // After a restart of the agent it is not known whether it is mounted: unmounting settles it.
  holding.mounted = true;
  c.facts.move.verified = {};
  c.facts.progress.ledger_known = false;  // it was that of what is dropped
  return release_storage(c, ReleaseGoal::Survey);
}

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
  if (c.now - since < c.policy.attaching_limit)
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  return block(c, Block::VolumeStuck, Detail(volume.id.view()));
}

const SeenVolume* current_volume(const Survey& survey) {
  const Volumes current = current_volumes(survey);
  return current.empty() ? nullptr : current.front();
}

const SeenVolume* done_volume(const Survey& survey, const VolumeId& finished) {
  for (const SeenVolume& volume : survey.volumes) {
    const bool says = volume.done || (finished && volume.id == finished);
    const bool ours = volume.discoverable && volume.state != VolumeState::Deleting;
    if (says && ours && !is_superseded(volume, survey)) return &volume;
  }
  return nullptr;
}

Stage advance_candidate(const Survey& survey, const VolumeId& parent, std::uint32_t generation,
                        bool lost, Context& c) {
  Facts& facts = c.facts;
  if (const SeenVolume* candidate = candidate_here(survey, parent, generation, facts)) {
    facts.move.created_at = kNever;
    if (is_verified_here(*candidate, facts)) {
      facts.holding.volume = candidate->id;
      facts.holding.attached = true;  // an attach by an old picture may have been refused since
      return settle_candidate(survey, *candidate, c);
    }
    if (candidate->state != VolumeState::Error)
      return use_volume(*candidate, Purpose::Verify, survey, c);
    ++facts.move.create_attempt;
    c.ask(DeleteVolume{candidate->id}, c.policy.ec2_call);
    return Discarding{};
  }
  const SeenSnapshot* best = nullptr;
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    if (snapshot.parent != parent || snapshot.generation != generation) continue;
    if (!is_of_the_whole(snapshot, c.policy) && !lost) continue;
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
      if (c.now - facts.move.created_at < c.policy.consistency_bound)
        return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
      facts.move.created_at = kNever;
      ++facts.move.create_attempt;
      return block(c, Block::CopyVanished, {});
    }
    const std::uint32_t rate =
        facts.move.unpaid
            ? 0
            : initialization_rate(facts.identity.dollars_per_hour, best->gibibytes, c.policy);
    facts.move.rate_dollars = price_of_rate(rate, best->gibibytes, c.policy);
    c.ask(CreateVolume{facts.identity.zone, best->id, parent, generation, facts.move.lineage,
                       best->moves + 1, facts.move.create_attempt, rate},
          c.policy.ec2_call);
    return CreatingCandidate{best->id, rate};
  }
  const bool just_asked = facts.move.snapshot_asked_at != kNever &&
                          c.now - facts.move.snapshot_asked_at < c.policy.consistency_bound;
  if (best || just_asked) return wait(c, Wait::SnapshotPending, c.policy.poll_snapshot);
  c.ask(CreateSnapshot{parent, generation, facts.move.lineage, facts.move.moves},
        c.policy.ec2_call);
  return Snapshotting{parent};
}

VolumeId line_in(const Survey& everything, const VolumeId& known) {
  const auto ours = [&](const SeenVolume& volume) { return line_of(volume) == known; };
  if (known && std::any_of(everything.volumes.begin(), everything.volumes.end(), ours))
    return known;  // another volume may have got the tag meanwhile
  VolumeId line = known;
  const SeenVolume* current = current_volume(everything);
  if (current) return line_of(*current);
  return lines_left(everything, line).empty() ? line : VolumeId();
}

// Somebody else's volume has got the tag while ours is between two zones, and EC2 does not show its
// copy as the job's yet: a snapshot of theirs would be ours to delete, and is of no line of ours.
Detail line_beside(const Survey& everything, const VolumeId& known, const VolumeId& line) {
  const auto ours = [&](const SeenVolume& volume) { return line_of(volume) == known; };
  if (!known || known == line || std::ranges::none_of(everything.volumes, ours)) return {};
  return Detail("lines of " + known.str() + ", " + line.str());
}

Next plan(const Survey& seen, Context& c) {
  const Survey everything = as_known(seen, c);
  const bool has_epoch = c.policy.fence && seen.epoch.number != 0;
  const VolumeId known = has_epoch ? seen.epoch.line : c.facts.move.lineage;
  VolumeId line = known;
  VolumeId current;
  if (const SeenVolume* it = current_volume(everything)) {
    line = line_of(*it);
    current = it->id;
    if (const Detail lines = line_beside(everything, known, line))
      return block(c, Block::TwoVolumes, lines);
  } else if (const Detail lines = has_epoch ? Detail() : lines_left(everything, line)) {
    return block(c, Block::TwoVolumes, lines);
  }
  if (const Next second = check_single(everything, c)) return second;
  // No epoch at all is another thing than one that was not read.
  if (c.policy.fence && seen.epoch_line != line)
    return wait(c, Wait::Retry, c.policy.poll_attachment);
  const Survey ours = of_line(everything, line, current);
  if (const Next wrong = check_fence(ours, c)) return wrong;
  c.facts.move.lineage = line;
  Next next = plan_own(ours, everything, c);
  // A guess is not kept: EC2 may show another line's copy only later, and then a person chooses.
  if (!current) c.facts.move.lineage = known;
  return next;
}

Next plan_spaced(const Survey& survey, Context& c) {
  const State before = c.state;
  const Next next = plan(survey, c);
  Facts::Change asked = asked_for(c);
  if (asked.kind == 0) return next;
  const Facts::Change& last = before.facts.trouble.change;
  if (last.kind == asked.kind && last.of == asked.of) {
    const Duration left = last.asked_at + pause_after(last, c.policy) - c.now;
    if (left > Duration::zero()) {
      const std::string_view command = name(c.effects[0].what);
      c.state = before;
      c.effects.clear();
      c.wake.reset();
      return put_off(last, command, left, c);
    }
    asked.taken = last.taken;
    asked.unsure = last.unsure;
  }
  c.facts.trouble.change = asked;
  return next;
}

void count_taken(State& state, const Event& event) {
  Facts::Change& change = state.facts.trouble.change;
  if (!event.effect || event.effect != change.asked) return;
  const auto* failed = std::get_if<EffectFailed>(&event.what);
  if (!failed) ++change.taken;
  if (failed && failed->unsettled) ++change.unsure;
}

}  // namespace spotter::decide
