// The end: the result is durable, so say so on the volume, leave nothing behind, cancel the fleet.
// Or the job's failure policy: no more money, but nothing cancelled and nothing deleted.
#include <algorithm>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

// A fleet that could not be read at the start is read now: it costs money. A machine that may not
// even read it is given back.
void ask_fleet(Context& c, bool enough) {
  const InstanceId& instance = c.facts.identity.instance;
  if (instance && enough) return c.ask(GiveBackInstance{instance}, c.policy.ec2_call);
  if (instance) return ask_for_fleet(c);
  c.ask(ReadIdentity{}, c.policy.imds_call);  // a share does not need it before
}

// The time when everything that an agent asked for is shown: no agent removes what is left when the
// fleet ends. Another agent may see the volume as not done for one bound after it was marked; what
// it asks for then takes up to a bound to be made, and another one to be shown to us. If no fleet
// ends, that agent runs on and removes it.
Time all_seen(const Tidying& stage, const Context& c) {
  const Duration bound = c.policy.consistency_bound;
  // With a fence no other agent has asked for anything since our epoch.
  const bool others = has_fleet(c) && !c.policy.fence;
  const Time marked = others ? stage.marked_at + 3 * bound : stage.marked_at;
  const Time shown = std::max(marked, stage.quiet_since + bound);
  if (c.facts.move.snapshot_asked_ahead_at == kNever) return shown;
  return std::max(shown, c.facts.move.snapshot_asked_ahead_at + c.policy.ec2_call + bound);
}

// The volume that this session knows to have the result, whatever its tags say.
VolumeId finished(const Facts& facts) {
  return facts.holding.purpose == Purpose::Train ? facts.holding.volume : VolumeId();
}

// The job's volume, as long as EC2 does not show it as done.
const SeenVolume* to_mark(const Survey& survey, const Facts& facts) {
  for (const SeenVolume& volume : survey.volumes) {
    if (volume.id == finished(facts) && volume.discoverable && !volume.done) return &volume;
  }
  return nullptr;
}

// An agent that made a copy of the volume as it is now has not seen `done`, and may have deleted
// the original, which EC2 may still show. When the copy has been free for so long and the original
// is there, it was not deleted: an agent deletes the original only while it has the copy attached.
bool candidates_settle(const SeenVolume& current, const Survey& survey, Context& c) {
  const bool any =
      std::any_of(survey.volumes.begin(), survey.volumes.end(), [&](const SeenVolume& it) {
        return is_copy(it) && it.generation >= current.generation &&
               it.state == VolumeState::Available && !it.holder;
      });
  Time& since = c.facts.tidying.candidates_free_since;
  if (!any || since == kNever) since = any ? c.now : kNever;
  return any && c.now - since < c.policy.consistency_bound + c.policy.ec2_call;
}

}  // namespace

Stage tidy_up(Context& c) {
  c.facts.tidying.since = c.now;
  c.facts.tidying.candidates_free_since = kNever;
  c.facts.move.parent_gone_since = kNever;
  c.ask(SurveyStorage{c.facts.move.lineage}, c.policy.ec2_call);
  return Tidying{c.now, c.now, 0};
}

Stage ask_end(Context& c, const CancellingFleet& stage) {
  const bool enough = stage.refusals >= c.policy.refusals;
  if (!c.facts.identity.fleet_known)
    ask_fleet(c, enough);
  else
    c.ask(CancelFleet{c.facts.identity.fleet, enough}, c.policy.ec2_call);
  return stage;
}

Stage ask_end(Context& c, const ScalingToZero& stage) {
  const Facts::Identity& identity = c.facts.identity;
  const bool enough = stage.refusals >= c.policy.refusals;
  if (!identity.fleet_known)
    ask_fleet(c, enough);
  else if (leaves_gang_alone(c.facts, c.policy))
    c.ask(LeaveFleet{identity.fleet, identity.instance, enough}, c.policy.ec2_call);
  else
    c.ask(ScaleFleetToZero{identity.fleet, enough}, c.policy.ec2_call);
  return stage;
}

Next end_in_vain(Context& c, std::uint32_t failures, Stage last) {
  const Facts::Identity& identity = c.facts.identity;
  // No metadata service, so no fleet: a laptop, a container. But it may only be down for long, and
  // a fleet run on: the agent asks again.
  const bool outside = on_share(c) && !identity.ec2 && !identity.instance &&
                       !identity.fleet_known && failures + 1 >= c.policy.identity_tries;
  c.wake_in(outside ? c.policy.tidy_every : backoff(c.policy, failures));
  return outside ? Next(rest(c, std::move(last))) : std::nullopt;
}

bool leaves_gang_alone(const Facts& facts, const Policy& policy) {
  return policy.gang && facts.exit.surrender == Surrender::BlockedTooLong;
}

// Waits for a person to look, who may not come.
Stage hold(Context& c) {
  Stage last = rest(c, GaveUp{});
  if (std::holds_alternative<GaveUp>(last)) c.wake_in(c.policy.hold_limit);
  return last;
}

Stage rest(Context& c, Stage last) {
  complete_lifecycle(c);
  if (!c.facts.exit.leave && !c.policy.foreground) return last;
  c.issue(Exit{}, c.policy.look);
  return Leaving{};
}

// Once, before the volume is released, so that the next instance sees it. After a failure tidying
// tries it again; the volume's ledger says `done`, too.
Next on(const MarkingDone&, const CallAccepted&, Context& c) {
  return release(c, ReleaseGoal::Finish);
}

Next on(const MarkingDone&, const EpochWritten&, Context& c) {
  ++c.facts.fence.epoch.number;
  c.facts.fence.epoch.state = Epoch::State::Done;
  return release(c, ReleaseGoal::Finish);
}

Next on(const MarkingDone&, const EffectFailed& failed, Context& c) {
  if (!in_bucket(c)) return release(c, ReleaseGoal::Finish);
  // Whether it was written the next look says; who has to leave does not wait for that.
  if (Next end = leaves_unfinished(c)) return end;
  c.facts.exit.done = false;
  return home_failed(c, failed);
}

// The fleet ends when nothing of ours is left, and nothing was made since every agent could see
// `done`. Then no other agent begins anything that the end of the fleet would leave behind.
Next on(const Tidying& stage, const StorageSurveyed& seen, Context& c) {
  const bool enough = c.now - c.facts.tidying.since >= c.policy.tidy_limit;
  c.facts.tidying.data_left = data_in_use(seen.survey);
  if (c.policy.fence && learn_line(seen.survey, c)) {
    c.ask(SurveyStorage{c.facts.move.lineage}, c.policy.ec2_call);
    return stage;
  }
  const Survey all = as_known(seen.survey, c);
  const Survey ours = of_line(all, c.facts.move.lineage, c.facts.holding.volume);
  const SeenVolume* current = current_volume(ours);
  // Another agent's commit has deleted the volume with the result. If the result is on the copy,
  // its ledger says so.
  const bool moved = !done_volume(ours, finished(c.facts)) && (current || elect(ours));
  if (moved) {
    c.facts.exit.done = false;
    return plan(seen.survey, c);
  }
  if (enough) return cancel_fleet(c);
  // Its copy may be shown as verified, or as the job's, only later: nothing of it is deleted
  // before.
  if (current) c.facts.move.parent_gone_since = kNever;
  if (!current && commit_settles_in({}, c) > Duration::zero()) {
    c.wake_in(c.policy.poll_attachment);
    return stage;
  }
  std::optional<Command> command;
  if (!current || !candidates_settle(*current, ours, c)) {
    // A volume that could not be unmounted stays attached until the machine ends.
    const bool idle = !c.facts.holding.mounted && !c.facts.holding.unproven;
    command =
        leftover(ours, finished(c.facts), idle ? c.facts.identity.instance : InstanceId(), false);
  }
  if (!command) command = data_left_over(seen.survey, c.facts);
  const SeenVolume* unmarked = to_mark(ours, c.facts);
  if (unmarked) command = MarkDone{unmarked->id};
  // After the rest: what is not deleted costs, also while S3 takes nothing.
  if (!command) command = epoch_of_the_end(ours, c.facts);
  // Another agent that has a copy sees `done`, too, and releases it. A copy that is still being
  // created cannot be deleted yet.
  const bool kept = c.facts.tidying.data_left ||
                    std::any_of(ours.volumes.begin(), ours.volumes.end(), [](const SeenVolume& it) {
                      return is_copy(it) && it.state != VolumeState::Deleting;
                    });
  if (command) {
    c.ask(*command, c.policy.ec2_call);
    return Tidying{c.now, unmarked ? c.now : stage.marked_at, 0};
  }
  const Duration left = all_seen(stage, c) - c.now;
  if (!kept && left <= Duration::zero()) return cancel_fleet(c);
  c.wake_in(kept ? c.policy.poll_held : std::min<Duration>(left, c.policy.poll_held));
  return stage;
}

Next on(const Tidying& stage, const CallAccepted&, Context& c) {
  c.wake_in(c.policy.poll_attachment);  // EC2 still lists what was deleted for a while
  return Tidying{c.now, stage.marked_at, stage.failures};
}

Next on(const Tidying& stage, const EpochWritten&, Context& c) {
  return on(stage, CallAccepted{}, c);
}

// Tried again also without the permission: it may be given, and what stays costs for ever.
Next on(const Tidying& stage, const EffectFailed& failed, Context& c) {
  if (c.now - c.facts.tidying.since >= c.policy.tidy_limit) return cancel_fleet(c);
  const bool gone = failed.failure == Failure::Missing;
  c.wake_in(backoff(c.policy, gone ? 0 : stage.failures));
  return Tidying{stage.quiet_since, stage.marked_at, stage.failures + (gone ? 0 : 1)};
}

Next on(const Tidying& stage, const Woke&, Context& c) {
  c.ask(SurveyStorage{c.facts.move.lineage}, c.policy.ec2_call);
  return stage;
}

Next on(const Finished&, const Woke&, Context& c) {
  c.ask(ReadIdentity{}, c.policy.imds_call);
  return std::nullopt;
}

Next on(const Finished&, const IdentityRead& identity, Context& c) {
  remember_identity(c, identity);
  return ask_end(c, CancellingFleet{});
}

Next on(const GaveUp&, const Woke&, Context& c) {
  if (c.policy.then == GiveUp::Hold) return end_fleet(c, ScalingToZero{});
  c.ask(ReadIdentity{}, c.policy.imds_call);
  return std::nullopt;
}

Next on(const GaveUp&, const IdentityRead& identity, Context& c) {
  remember_identity(c, identity);
  return settle(c, ReleaseGoal::GiveUp);
}

}  // namespace spotter::decide
