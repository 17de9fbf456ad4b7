// The end: the result is durable, so say so on the volume, leave nothing behind, cancel the fleet.
// Or the job's failure policy: no more money, but nothing cancelled and nothing deleted.
#include <algorithm>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

constexpr std::uint32_t kMarkTries = 3;  // before it is let go; then again

// A fleet that could not be asked for at the start is asked for now: it costs money.
Stage ask_cancel(Context& c, std::uint32_t failures) {
  if (c.facts.fleet_known) c.ask(CancelFleet{c.facts.fleet}, c.policy.ec2_call);
  if (!c.facts.fleet_known) c.ask(ReadFleet{c.facts.instance}, c.policy.ec2_call);
  return CancellingFleet{failures};
}

Stage ask_scale(Context& c, std::uint32_t failures) {
  if (c.facts.fleet_known) c.ask(ScaleFleetToZero{c.facts.fleet}, c.policy.ec2_call);
  if (!c.facts.fleet_known) c.ask(ReadFleet{c.facts.instance}, c.policy.ec2_call);
  return ScalingToZero{failures};
}

Stage end_of(const Context& c) { return c.facts.done ? Stage(Finished{}) : Stage(GaveUp{}); }

// A snapshot that somebody asked for a moment ago may not be shown yet, or not even be made: what
// is cancelled now nobody will ever remove.
Time all_seen(const Context& c) {
  const Time shown = c.facts.clean_since + c.policy.consistency_bound;
  if (c.facts.imaged_at == kNever) return shown;
  return std::max(shown, c.facts.imaged_at + c.policy.ec2_call + c.policy.consistency_bound);
}

Stage unmount_done(Context& c) {
  c.facts.retries = 0;
  c.ask(Unmount{}, c.policy.unmount);
  return Unmounting{After::Finish};
}

}  // namespace

Stage tidy_up(Context& c) {
  c.facts.retries = 0;
  c.facts.tidying_since = c.now;
  c.facts.clean_since = kNever;
  c.ask(SurveyStorage{}, c.policy.ec2_call);
  return Tidying{};
}

Stage cancel_fleet(Context& c) {
  const bool none = c.facts.fleet_known && c.facts.fleet.kind == FleetKind::None;
  return none ? rest(c, end_of(c)) : ask_cancel(c, 0);
}

Stage scale_to_zero(Context& c) {
  const bool none = c.facts.fleet_known && c.facts.fleet.kind == FleetKind::None;
  return none ? rest(c, GaveUp{}) : ask_scale(c, 0);
}

Stage rest(Context& c, Stage last) {
  if (!c.facts.leave) return last;
  c.tell(Exit{}, c.policy.look);
  return Leaving{};
}

Next on(const MarkingDone&, const CallAccepted&, Context& c) {
  c.facts.marked = true;
  return unmount_done(c);
}

Next on(const MarkingDone& stage, const EffectFailed& failed, Context& c) {
  const bool enough = ++c.facts.retries >= kMarkTries || failed.failure == Failure::Refused;
  if (enough || c.facts.notice) return unmount_done(c);
  c.wake_in(backoff(c.policy, c.facts.retries));
  return stage;
}

Next on(const MarkingDone& stage, const Woke&, Context& c) {
  c.ask(MarkDone{c.facts.volume}, c.policy.ec2_call);
  return stage;
}

Next on(const Tidying&, const StorageSurveyed& seen, Context& c) {
  const Tidying stage;
  // Until others see it, they make copies as fast as we remove them.
  if (c.facts.volume && !c.facts.marked && !is_done(seen.survey)) {
    c.ask(MarkDone{c.facts.volume}, c.policy.ec2_call);
    return Tidying{true};
  }
  const auto command = leftover(seen.survey, false);
  // A copy in another agent's hands: it sees `done`, too, and lets go of it. One that is still
  // being created cannot be deleted yet.
  const bool kept =
      std::any_of(seen.survey.volumes.begin(), seen.survey.volumes.end(), [](const SeenVolume& it) {
        return it.role != Role::State && !it.discoverable && it.state != VolumeState::Deleting;
      });
  if (!command && kept && c.now - c.facts.tidying_since < c.policy.tidy_held) {
    c.wake_in(c.policy.poll_held);
    return stage;
  }
  if (!command && c.facts.clean_since == kNever) c.facts.clean_since = c.now;
  if (!command && c.now < all_seen(c)) {
    c.wake_at(all_seen(c));
    return stage;
  }
  if (!command) return cancel_fleet(c);
  c.facts.clean_since = kNever;
  c.ask(*command, c.policy.ec2_call);
  return stage;
}

Next on(const Tidying& stage, const CallAccepted&, Context& c) {
  c.facts.marked = c.facts.marked || stage.marking;
  c.ask(SurveyStorage{}, c.policy.ec2_call);
  return Tidying{};
}

Next on(const Tidying& stage, const EffectFailed& failed, Context& c) {
  const bool gone = failed.failure == Failure::Missing;
  c.facts.marked = c.facts.marked || (stage.marking && failed.failure != Failure::Unavailable);
  const bool enough = c.now - c.facts.tidying_since >= c.policy.tidy_limit;
  if (enough || (failed.failure == Failure::Refused && !stage.marking)) return cancel_fleet(c);
  c.wake_in(backoff(c.policy, gone ? 0 : ++c.facts.retries));
  return stage;
}

Next on(const Tidying& stage, const Woke&, Context& c) {
  c.ask(SurveyStorage{}, c.policy.ec2_call);
  return stage;
}

Next on(const CancellingFleet&, const FleetRead& read, Context& c) {
  c.facts.fleet = read.fleet;
  c.facts.fleet_known = true;
  return cancel_fleet(c);
}

Next on(const CancellingFleet&, const CallAccepted&, Context& c) { return rest(c, end_of(c)); }

// It costs money until it succeeds: there is no last try.
Next on(const CancellingFleet& stage, const EffectFailed&, Context& c) {
  c.wake_in(backoff(c.policy, stage.failures));
  return CancellingFleet{stage.failures + 1};
}

Next on(const CancellingFleet& stage, const Woke&, Context& c) {
  return ask_cancel(c, stage.failures);
}

Next on(const ScalingToZero&, const FleetRead& read, Context& c) {
  c.facts.fleet = read.fleet;
  c.facts.fleet_known = true;
  return scale_to_zero(c);
}

Next on(const ScalingToZero&, const CallAccepted&, Context& c) { return rest(c, GaveUp{}); }

Next on(const ScalingToZero& stage, const EffectFailed&, Context& c) {
  c.wake_in(backoff(c.policy, stage.failures));
  return ScalingToZero{stage.failures + 1};
}

Next on(const ScalingToZero& stage, const Woke&, Context& c) {
  return ask_scale(c, stage.failures);
}

Next on(const Finished&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return settle(c, After::Exit);
}

Next on(const GaveUp&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return let_go(c, After::Exit);
}

}  // namespace spotter::decide
