// Are the GPUs there that the job needs? Asked before each start of the trainer: one may be missing
// from the beginning, or have fallen off the bus while a trainer ran. A machine without them is
// given back, with nothing of the job on it, and its fleet launches another.
#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

// It counts as an attempt: a fleet that only has such machines would replace them for ever. Once,
// however often this one tries to leave.
Stage leave_unfit_machine(Context& c, Surrender at_last) {
  auto& attempts = c.facts.progress.ledger.attempts_without_progress;
  if (!std::exchange(c.facts.exit.unfit, true)) ++attempts;
  c.facts.exit.hinders_gang = false;
  if (attempts >= c.policy.attempts_without_progress) return give_up(c, at_last);
  return release_storage(c, After::GiveBack);
}

}  // namespace

bool is_replaced(const Context& c) {
  const auto& identity = c.facts.identity;
  return !c.policy.once && identity.instance && identity.fleet_known &&
         identity.fleet.kind != FleetKind::None;
}

bool hinders_gang(const Context& c) { return c.facts.exit.hinders_gang && is_replaced(c); }

// They may write where the next trainer would. The fault is this machine's: it must not end the
// job.
Stage outlast(Context& c, const EffectFailed& failed) {
  Time& since = c.facts.trouble.left_since;
  if (since == kNever) since = c.now;
  if (c.now - since < c.policy.left_limit) return wait(c, Wait::Retry, c.policy.left_retry);
  if (is_replaced(c) || c.policy.once) return leave_unfit_machine(c, Surrender::NoProgress);
  return block(c, Block::TrainerUnstartable, failed.detail);
}

// How many machines a gang gives back is counted in its record.
Stage leave_gang(Context& c) {
  c.facts.exit.unfit = true;
  c.facts.exit.hinders_gang = true;
  return release_storage(c, After::GiveBack);
}

Stage give_back(Context& c, std::uint32_t failures) {
  c.ask(GiveBackInstance{c.facts.identity.instance}, c.policy.ec2_call);
  return GivingBack{failures};
}

Next on(const AwaitingGpus&, const GpusFound&, Context& c) {
  if (c.facts.trouble.left_since == kNever) c.facts.exit.unfit = false;
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
  if (absent && (is_replaced(c) || c.policy.once))
    return leave_unfit_machine(c, Surrender::GpusAbsent);
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
  if (hopeless && !c.facts.exit.hinders_gang) return call_failed(c, failed);
  if (Next end = hopeless ? leaving(c) : std::nullopt) return end;
  // The others train: this machine, blocked for long, must not end the fleet that is theirs, too.
  c.wake_in(hopeless ? c.policy.retry_last : backoff(c.policy, stage.failures));
  return GivingBack{stage.failures + 1, hopeless ? failed.detail : Detail()};
}

Next on(const GivingBack&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return settle(c, After::Exit);
}

Next on(const GivingBack& stage, const Woke&, Context& c) {
  give_back(c, stage.failures);
  return stage;
}

}  // namespace spotter::decide
