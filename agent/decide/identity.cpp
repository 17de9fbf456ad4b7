// Who am I, and what is already going on here? An agent that was killed and started again finds its
// trainer running, or how it ended, and its volume still mounted.
#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Stage read_fleet(Context& c, std::uint32_t failures) {
  c.ask(ReadFleet{c.facts.instance}, c.policy.ec2_call);
  return ReadingFleet{failures};
}

namespace {

// An adopted trainer is watched before anything is asked of the cloud.
Stage go_to_work(Context& c) {
  if (c.facts.trainer_running) return read_account(c);
  if (Next end = leaving(c)) return *end;
  return prepare(c);
}

// It is told in go_to_work(); its fleet can be asked for later.
bool must_stop_trainer(const Context& c) {
  return c.facts.trainer_running && (c.facts.notice || c.facts.leave);
}

// Neither Batch's hosts nor a laptop are ours to end.
Stage skip_fleet(Context& c) {
  c.facts.fleet_known = true;
  return go_to_work(c);
}

}  // namespace

Stage identify(Context& c, std::uint32_t failures) {
  c.ask(ReadIdentity{}, c.policy.imds_call);
  return Identifying{failures};
}

Next on(const Booting&, const Started&, Context& c) {
  c.ask(LookAtHost{}, c.policy.look);
  return LookingAround{};
}

Next on(const LookingAround&, const HostLooked& seen, Context& c) {
  c.facts.volume = seen.mounted;
  c.facts.attached = static_cast<bool>(seen.mounted);
  c.facts.mounted = c.facts.attached || seen.share;
  c.facts.data = c.policy.data > 0;  // of an earlier agent
  c.facts.trainer_running = seen.trainer == HostLooked::Trainer::Running && c.facts.mounted;
  // Nothing of ours is mounted, and a trainer runs: it writes where nobody will look.
  if (seen.trainer == HostLooked::Trainer::Running && !c.facts.mounted) {
    c.tell(KillTrainer{}, c.policy.look);
  }
  c.facts.ended_success =
      seen.trainer == HostLooked::Trainer::Ended && seen.ended.success && c.facts.mounted;
  return identify(c, 0);
}

// The host cannot be looked at (a hung mount, no memory): nothing may be started beside what may be
// running, so look again until it can.
Next on(const LookingAround&, const EffectFailed&, Context& c) {
  c.wake_in(c.policy.retry_first);
  return LookingAround{};
}

Next on(const LookingAround&, const Woke&, Context& c) {
  c.ask(LookAtHost{}, c.policy.look);
  return LookingAround{};
}

Next on(const Identifying&, const IdentityRead& identity, Context& c) {
  c.facts.instance = identity.instance;
  c.facts.type = identity.type;
  c.facts.zone = identity.zone;
  c.facts.region = identity.region;
  if (c.facts.accounted == kNever) c.facts.accounted = c.now;
  if (c.policy.once) return skip_fleet(c);
  if (must_stop_trainer(c)) return go_to_work(c);
  return read_fleet(c, 0);
}

Next on(const Identifying& stage, const EffectFailed&, Context& c) {
  if (must_stop_trainer(c)) return go_to_work(c);
  if (Next end = leaving(c)) return end;
  // Needed for a volume; a share is there without it. The end asks once more (finish.cpp).
  if (c.policy.once) return skip_fleet(c);
  if (on_share(c) && stage.failures + 1 >= c.policy.identity_tries) return go_to_work(c);
  c.wake_in(backoff(c.policy, stage.failures));
  return Identifying{stage.failures + 1};
}

Next on(const Identifying& stage, const Woke&, Context& c) { return identify(c, stage.failures); }

Next on(const ReadingFleet&, const FleetRead& read, Context& c) {
  c.facts.fleet = c.policy.fleet.kind == FleetKind::None ? read.fleet : c.policy.fleet;
  c.facts.fleet_known = true;
  c.facts.dollars_per_hour = read.dollars_per_hour;
  if (!c.facts.trainer_running) {
    if (Next end = leaving(c)) return end;
    // EBS lets one instance have the volume; a share takes what anybody writes.
    if (on_share(c) && read.target > 1) {
      return block(c, Block::ManyInstances, Detail(c.facts.fleet.id.view()));
    }
    // A predecessor that shuts down, or that EC2 replaces before it ends.
    if (on_share(c) && read.elders > 0) return wait(c, Wait::ShareHeld, c.policy.poll_held);
  }
  return go_to_work(c);
}

// Which fleet to cancel is needed only at the end: without permission to ask, work begins.
Next on(const ReadingFleet& stage, const EffectFailed& failed, Context& c) {
  if (failed.failure == Failure::Refused || c.facts.trainer_running) {
    c.facts.fleet = c.policy.fleet;
    c.facts.fleet_known = c.policy.fleet.kind != FleetKind::None;
    return go_to_work(c);
  }
  if (Next end = leaving(c)) return end;
  c.wake_in(backoff(c.policy, stage.failures));
  return ReadingFleet{stage.failures + 1};
}

Next on(const ReadingFleet& stage, const Woke&, Context& c) {
  return read_fleet(c, stage.failures);
}

}  // namespace spotter::decide
