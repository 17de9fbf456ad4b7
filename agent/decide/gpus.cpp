// Are the GPUs there that the job needs? Asked before each start of the trainer: one may be missing
// from the beginning, or have fallen off the bus while a trainer ran. A machine without them is
// given back, with nothing of the job on it, and its fleet launches another.
#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

// Would a fleet launch another machine in the place of this one?
bool is_replaced(const Context& c) {
  return c.facts.identity.instance && c.facts.identity.fleet_known &&
         c.facts.identity.fleet.kind != FleetKind::None;
}

// It counts as an attempt: a fleet that only has such machines would replace them for ever.
Stage leave_unfit_machine(Context& c) {
  c.facts.exit.unfit = true;
  if (++c.facts.progress.ledger.attempts_without_progress >= c.policy.attempts_without_progress) {
    return give_up(c, Surrender::GpusAbsent);
  }
  return release_storage(c, After::GiveBack);
}

}  // namespace

Stage give_back(Context& c, std::uint32_t failures) {
  c.ask(GiveBackInstance{c.facts.identity.instance}, c.policy.ec2_call);
  return GivingBack{failures};
}

Next on(const AwaitingGpus&, const GpusFound&, Context& c) {
  c.facts.exit.unfit = false;
  if (Next end = leaving(c)) return end;
  return prepare_data(c);
}

Next on(const AwaitingGpus&, const EffectFailed& failed, Context& c) {
  if (Next end = leaving(c)) return end;
  if (failed.failure == Failure::Abandoned) return retry_later(c, failed);
  // No answer at all: the driver hangs. Any other failure says nothing of the GPUs.
  const bool hangs = failed.failure == Failure::Unavailable && failed.unsettled;
  const bool absent = hangs || failed.failure == Failure::GpusAbsent;
  // `once`: what started this process finds it another machine.
  if (absent && (is_replaced(c) || c.policy.once)) return leave_unfit_machine(c);
  c.facts.trouble.blocked += c.policy.await_gpus;
  return block(c, Block::GpusAbsent, failed.detail);
}

// It costs money until it ends; shutting down takes a while.
Next on(const GivingBack&, const CallAccepted&, Context& c) {
  c.wake_in(c.policy.spared_after);
  return GivingBack{};
}

Next on(const GivingBack& stage, const EffectFailed& failed, Context& c) {
  const bool hopeless = failed.failure == Failure::Refused || failed.failure == Failure::Rejected;
  if (hopeless) return call_failed(c, failed);
  c.wake_in(backoff(c.policy, stage.failures));
  return GivingBack{stage.failures + 1};
}

Next on(const GivingBack&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return settle(c, After::Exit);
}

Next on(const GivingBack& stage, const Woke&, Context& c) { return give_back(c, stage.failures); }

}  // namespace spotter::decide
