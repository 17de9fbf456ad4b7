// Learns which machine this is, and what runs here already: an agent that was killed and started
// again finds its trainer running, or how it ended, and its volume still mounted.
#include "agent/decide/transitions.hpp"

namespace spotter::decide {

void ask_for_fleet(Context& c) {
  c.facts.identity.fleet_call_at = c.now;
  c.ask(ReadFleet{c.facts.identity.instance}, c.policy.ec2_call);
}

Stage read_fleet(Context& c, std::uint32_t failures) {
  ask_for_fleet(c);
  return ReadingFleet{failures};
}

namespace {

// An answer says nothing of later than its question: a machine may stand still between the two.
bool tags_may_come(const Facts::Identity& identity, const Context& c) {
  return identity.fleet_call_at - identity.fleet_asked_at < c.policy.fleet_tags;
}

// On a share the instance that was launched first writes, and which these are only tags say.
bool may_be_second(const Context& c, const FleetRead& read) {
  const Facts::Identity& identity = c.facts.identity;
  if (!identity.fleet_known) return true;
  return read.untagged > 0 && tags_may_come(identity, c);
}

// An adopted trainer is watched before EC2 is called.
Stage begin_work(Context& c) {
  if (c.facts.trainer.running) return read_ledger(c);
  if (Next end = leaving(c)) return *end;
  return prepare(c);
}

// begin_work() stops it; its fleet can be read later.
bool must_stop_trainer(const Context& c) {
  return c.facts.trainer.running && (c.facts.exit.notice || c.facts.exit.leave);
}

// Batch's hosts and laptops are not ours to end.
Stage skip_fleet(Context& c) {
  c.facts.identity.fleet_known = true;
  return begin_work(c);
}

}  // namespace

// EC2 shows none until the fleet's tags are written.
void remember_fleet(Context& c, const FleetRead& read) {
  Facts::Identity& identity = c.facts.identity;
  if (identity.fleet_asked_at == kNever) identity.fleet_asked_at = c.now;
  const bool named = c.policy.fleet.kind != FleetKind::None;
  identity.fleet = named ? c.policy.fleet : read.fleet;
  identity.shut_down = read.shut_down;
  identity.once = read.once;
  identity.fleet_known = named || read.is_final() || !tags_may_come(identity, c);
  if (read.dollars_per_hour > 0) identity.dollars_per_hour = read.dollars_per_hour;
}

// On a share nothing else tells one writer from two; a home in a bucket has its epoch.
bool fleet_decides(const Context& c) { return on_share(c) && !in_bucket(c); }

void remember_identity(Context& c, const IdentityRead& read) {
  Facts::Identity& identity = c.facts.identity;
  identity.instance = read.instance;
  identity.type = read.type;
  identity.zone = read.zone;
  identity.region = read.region;
}

Stage identify(Context& c, std::uint32_t failures) {
  c.ask(ReadIdentity{}, c.policy.imds_call);
  return Identifying{failures};
}

Next on(const Booting&, const Started&, Context& c) {
  c.ask(LookAtHost{}, c.policy.look);
  return LookingAround{};
}

Next on(const LookingAround&, const HostLooked& seen, Context& c) {
  Facts::Holding& holding = c.facts.holding;
  Facts::Trainer& trainer = c.facts.trainer;
  c.facts.identity.ec2 = seen.ec2;
  holding.volume = seen.mounted;
  holding.attached = static_cast<bool>(seen.mounted);
  holding.mounted = holding.attached || seen.share;
  holding.data = c.policy.data > 0;  // of an earlier agent
  trainer.running = seen.trainer == HostLooked::Trainer::Running && holding.mounted;
  // A trainer runs, and the storage is not mounted: what it writes is lost.
  if (seen.trainer == HostLooked::Trainer::Running && !holding.mounted) {
    c.issue(KillTrainer{}, c.policy.look);
  }
  trainer.ended_success =
      seen.trainer == HostLooked::Trainer::Ended && seen.ended.success && holding.mounted;
  // Its end came while no agent watched it, or an agent that gave the machine back ended in that.
  c.facts.exit.hinders_gang =
      seen.trainer == HostLooked::Trainer::Ended && seen.ended.unfit_machine;
  return identify(c, 0);
}

// The host cannot be examined (a hung mount, no memory). A trainer may be running, and nothing may
// be started beside it: look again until it can. Conflict: another job's trainer runs, whose agent
// is gone. It is neither taken over nor ended, and nothing here is ours.
Next on(const LookingAround&, const EffectFailed& failed, Context& c) {
  const bool anothers = failed.failure == Failure::Conflict;
  if (Next end = anothers ? leaving(c) : std::nullopt) return end;
  c.wake_in(anothers ? c.policy.left_retry : c.policy.retry_first);
  return LookingAround{};
}

Next on(const LookingAround&, const Woke&, Context& c) {
  c.ask(LookAtHost{}, c.policy.look);
  return LookingAround{};
}

Next on(const Identifying&, const IdentityRead& identity, Context& c) {
  remember_identity(c, identity);
  if (c.facts.progress.counted_until == kNever) c.facts.progress.counted_until = c.now;
  if (c.policy.foreground) return skip_fleet(c);
  if (must_stop_trainer(c)) return begin_work(c);
  return read_fleet(c, 0);
}

Next on(const Identifying& stage, const EffectFailed&, Context& c) {
  if (must_stop_trainer(c)) return begin_work(c);
  if (Next end = leaving(c)) return end;
  // A volume needs it; a share does not. The end asks once more (finish.cpp).
  if (c.policy.foreground) return skip_fleet(c);
  const bool in_vain = stage.failures + 1 >= c.policy.identity_tries;
  const bool beside_nobody = !c.facts.identity.ec2 || c.facts.trainer.running;
  if (on_share(c) && beside_nobody && in_vain) return begin_work(c);
  c.wake_in(backoff(c.policy, stage.failures));
  return Identifying{stage.failures + 1};
}

Next on(const Identifying& stage, const Woke&, Context& c) { return identify(c, stage.failures); }

Next on(const ReadingFleet&, const FleetRead& read, Context& c) {
  remember_fleet(c, read);
  if (!c.facts.trainer.running) {
    if (Next end = leaving(c)) return end;
    // EBS attaches a volume to one instance; on a share every machine can write.
    if (fleet_decides(c) && read.target > 1)
      return block(c, Block::ManyInstances, Detail(c.facts.identity.fleet.id.view()));
    // An earlier instance is shutting down, or EC2 replaces it before it terminates it.
    if (fleet_decides(c) && read.earlier > 0) return wait(c, Wait::ShareHeld, c.policy.poll_held);
    if (fleet_decides(c) && may_be_second(c, read))
      return wait(c, Wait::FleetUnseen, c.policy.poll_held);
  }
  return begin_work(c);
}

// The fleet to cancel is needed only at the end: without permission to ask for it, work begins.
Next on(const ReadingFleet& stage, const EffectFailed& failed, Context& c) {
  if (failed.failure == Failure::Refused || c.facts.trainer.running) {
    c.facts.identity.fleet = c.policy.fleet;
    c.facts.identity.fleet_known = c.policy.fleet.kind != FleetKind::None;
    return begin_work(c);
  }
  if (Next end = leaving(c)) return end;
  c.wake_in(backoff(c.policy, stage.failures));
  return ReadingFleet{stage.failures + 1};
}

Next on(const ReadingFleet& stage, const Woke&, Context& c) {
  return read_fleet(c, stage.failures);
}

}  // namespace spotter::decide
