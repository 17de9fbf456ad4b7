// A fence: the job's epoch (survey.hpp) says which volume is the job's and who may use it, in the
// place of tags and bounds. Its tags stay as what a person sees. Before a session uses or copies
// the volume it writes the next epoch: only when the holder has released it, or can use nothing any
// more. With a verified copy it writes another, and that is the commit.
//
// A write whose answer is lost may be carried out later, also one of a session that was killed. So
// a session relies on no epoch but the one that it wrote itself and got the answer for (`ours`): in
// doubt it writes the next one, after which no earlier write is taken.
#include <algorithm>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

const SeenVolume* find(const Survey& survey, const VolumeId& id) {
  for (const SeenVolume& volume : survey.volumes) {
    if (id && volume.id == id && volume.state != VolumeState::Deleting) return &volume;
  }
  return nullptr;
}

Epoch next_epoch(const Survey& survey, const Context& c) {
  Epoch next = survey.epoch;
  ++next.number;
  next.line = c.facts.move.lineage;
  next.holder = c.facts.identity.instance;
  if (!find(survey, next.left)) next.left = {};
  return next;
}

Stage write(const Epoch& epoch, Context& c) {
  c.facts.fence.ours = 0;
  c.ask(WriteEpoch{epoch}, c.policy.epoch_call);
  return WritingEpoch{epoch};
}

// Only Terminated is final. Anything else that EC2 shows of an instance may be old, and counts once
// it was shown for a whole bound: a stopped instance may run again, one that is not listed may be
// new, or have ended more than an hour ago.
std::optional<Stage> await_holder(const Survey& survey, const SeenVolume& current, Context& c) {
  const Epoch& epoch = survey.epoch;
  const bool free =
      epoch.state == Epoch::State::Released || survey.epoch_holder == HolderState::Gone;
  if (free || epoch.holder == c.facts.identity.instance) return std::nullopt;
  if (c.policy.fills) return block(c, Block::NotFree, Detail(epoch.holder.view()));
  // An earlier session here left it attached, and another instance has the job.
  if (const SeenVolume* held = other_attached_here(survey, c.facts, {})) return drop(*held, c);
  Time& since = c.facts.fence.holder_lost_since;
  if (c.facts.fence.holder_lost_in != epoch.number) since = kNever;
  c.facts.fence.holder_lost_in = epoch.number;
  if (survey.epoch_holder == HolderState::Alive) {
    since = kNever;
    return wait(c, Wait::VolumeHeld, c.policy.poll_held);
  }
  if (current.holder == epoch.holder) return held_by_other(current, c);
  if (since == kNever) since = c.now;
  const Duration left = since + c.policy.consistency_bound - c.now;
  if (left <= Duration::zero()) return std::nullopt;
  return wait(c, Wait::VolumeHeld, std::min<Duration>(left, c.policy.poll_held));
}

// The first epoch of all: only EC2 says whether an instance uses the volume.
std::optional<Stage> await_first(const SeenVolume& current, Context& c) {
  if (current.fence == FenceTag::Ours) return block(c, Block::FenceGone, Detail(current.id.view()));
  if (current.holder && current.holder != c.facts.identity.instance)
    return held_by_other(current, c);
  if (current.state == VolumeState::Creating)
    return wait(c, Wait::VolumeChanging, c.policy.poll_attachment);
  return std::nullopt;
}

// The epoch names a volume that EC2 does not show: for a while it may be new.
Next await_volume(const Survey& survey, Context& c) {
  Time& since = c.facts.move.parent_gone_since;
  if (since == kNever) since = c.now;
  if (c.now - since < 2 * c.policy.consistency_bound)
    return wait(c, Wait::VolumeChanging, c.policy.poll_snapshot);
  return block(c, Block::NoVolume, Detail(survey.epoch.volume.view()));
}

}  // namespace

Survey as_fenced(const Survey& seen) {
  Survey result = seen;
  const Epoch& epoch = seen.epoch;
  if (epoch.number == 0) return result;
  for (SeenVolume& volume : result.volumes) {
    if (line_of(volume) != epoch.line) continue;
    volume.lineage = epoch.line;
    if (volume.id == epoch.volume) {
      volume.named = volume.discoverable && volume.role == Role::State;
      volume.discoverable = true;
      volume.role = Role::State;
      // The tag is lower where a claim came late, and higher where one used it that knows no fence.
      volume.generation = std::max(volume.generation, epoch.generation);
      volume.done = volume.done || epoch.state == Epoch::State::Done;
    } else {
      // An original of before, which a person may have restored: none of ours to use or delete.
      volume.discoverable = false;
      if (volume.id == epoch.left) volume.role = Role::Candidate;
    }
  }
  return result;
}

Next check_fence(const Survey& survey, Context& c) {
  for (const SeenVolume& volume : survey.volumes) {
    const FenceTag known = c.policy.fence ? FenceTag::Ours : FenceTag::None;
    const bool passes = volume.fence == known || (c.policy.fence && volume.fence == FenceTag::None);
    if (!passes) return block(c, Block::FenceOther, Detail(volume.id.view()));
  }
  return std::nullopt;
}

Next take_epoch(const Survey& survey, const SeenVolume* current, Context& c) {
  Facts::Fence& fence = c.facts.fence;
  fence.epoch = survey.epoch;
  const bool first = survey.epoch.number == 0;
  if (!current && !first) return await_volume(survey, c);
  if (!current || (!first && survey.epoch.number == fence.ours)) return std::nullopt;
  const auto before = first ? await_first(*current, c) : await_holder(survey, *current, c);
  if (before) return *before;
  if (current->state == VolumeState::Error)
    return block(c, Block::VolumeBroken, Detail(current->id.view()));
  Epoch next = next_epoch(survey, c);
  const bool here = current->zone == c.facts.identity.zone;
  next.state = here ? Epoch::State::Using : Epoch::State::Moving;
  next.volume = current->id;
  next.generation = current->generation + (here ? 1 : 0);
  return write(next, c);
}

// One original at a time is left to be deleted: the one before goes first.
Stage commit_by_epoch(const Survey& survey, const SeenVolume& candidate, Context& c) {
  if (const SeenVolume* left = find(survey, survey.epoch.left)) {
    const bool usable = left->state == VolumeState::Available || left->state == VolumeState::Error;
    const bool free = usable && !left->holder;
    if (!free) return held_by_other(*left, c);
    c.ask(DeleteVolume{left->id}, c.policy.ec2_call);
    return Discarding{};
  }
  Epoch next = next_epoch(survey, c);
  next.state = Epoch::State::Using;
  next.left = survey.epoch.volume;
  next.volume = candidate.id;
  ++next.generation;
  return write(next, c);
}

// A volume of that id that comes back is one that a person restored.
std::optional<Command> forget_left(const Survey& survey) {
  if (!survey.epoch.left || find(survey, survey.epoch.left)) return std::nullopt;
  Epoch next = survey.epoch;
  ++next.number;
  next.left = {};
  return WriteEpoch{next};
}

// Once, whatever comes of it: the next one then waits for the end of this instance. It may take
// that part of a notice.
std::optional<Stage> write_released(Context& c, ReleaseGoal then, std::uint32_t share_of_notice) {
  if (then == ReleaseGoal::Survey || then == ReleaseGoal::Finish) return std::nullopt;
  Duration limit = c.policy.epoch_call;
  if (c.facts.exit.notice)
    limit = std::min<Duration>(limit, (c.facts.exit.notice->deadline - c.now) / share_of_notice);
  if (limit <= Duration::zero()) return std::nullopt;
  Facts::Fence& fence = c.facts.fence;
  fence.ours = 0;
  ++fence.epoch.number;
  fence.epoch.state = Epoch::State::Released;
  c.ask(WriteEpoch{fence.epoch}, limit);
  return ReleasingEpoch{then};
}

std::optional<Stage> release_epoch(Context& c, ReleaseGoal then) {
  if (in_bucket(c)) return release_home(c, then);
  const Epoch& epoch = c.facts.fence.epoch;
  const bool holds = epoch.number != 0 && epoch.holder == c.facts.identity.instance;
  const bool open = epoch.state == Epoch::State::Using || epoch.state == Epoch::State::Moving;
  if (!c.policy.fence || !holds || !open) return std::nullopt;
  return write_released(c, then, c.policy.final_snapshot_share);
}

std::optional<Command> epoch_of_the_end(const Survey& survey, const Facts& facts) {
  Epoch epoch = survey.epoch;
  const bool ours = epoch.number != 0 && epoch.holder == facts.identity.instance;
  if (!ours || epoch.state == Epoch::State::Done) return std::nullopt;
  ++epoch.number;
  epoch.state = Epoch::State::Done;
  if (!find(survey, epoch.left)) epoch.left = {};
  return WriteEpoch{epoch};
}

Next on(const WritingEpoch& stage, const EpochWritten&, Context& c) {
  Facts::Fence& fence = c.facts.fence;
  fence.epoch = stage.epoch;
  fence.ours = stage.epoch.number;
  fence.holder_lost_since = kNever;
  if (Next end = leaving(c)) return end;
  if (in_bucket(c)) return enter_home(c);
  const bool commits = c.facts.move.verified && stage.epoch.volume == c.facts.move.verified;
  if (!commits) return survey(c);
  c.ask(PromoteVolume{stage.epoch.volume, stage.epoch.generation}, c.policy.ec2_call);
  return Promoting{stage.epoch.volume, {}, stage.epoch.generation};
}

// Conflict: another epoch was written first, perhaps by a call of ours whose answer was lost.
Next on(const WritingEpoch&, const EffectFailed& failed, Context& c) {
  if (failed.failure == Failure::Conflict) {
    if (Next end = leaving(c)) return end;
    return survey(c);
  }
  EffectFailed settled = failed;
  settled.unsettled = false;  // the next epoch settles it, and no bound
  return call_failed(c, settled);
}

Next on(const ReleasingEpoch& stage, const EpochWritten&, Context& c) {
  return next_release_step(c, stage.then);
}

}  // namespace spotter::decide
