// Letting go, in the one order that loses nothing: trainer, account, unmount, detach. Whatever the
// reason (a notice, the end, a limit, a stale copy), it is this way.
#include <algorithm>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

constexpr Duration kAgain = seconds(1);  // a busy mount, a refused call: the deadline is near
constexpr Duration kKillAgain = seconds(5);

Stage unmount(Context& c, After then) {
  c.ask(Unmount{}, c.policy.unmount);
  return Unmounting{then};
}

Stage detach(Context& c, After then) {
  c.ask(DetachVolume{c.facts.volume, c.facts.instance}, c.policy.ec2_call);
  return Detaching{then};
}

Stage close_account(Context& c, After then) {
  Ledger& ledger = c.facts.ledger;
  account(c);
  if (then == After::Finish) ledger.done = true;
  // A person who raises the target again gets new tries.
  if (then == After::Finish || then == After::GiveUp) ledger.attempts_without_progress = 0;
  c.ask(WriteLedger{ledger}, c.policy.ledger);
  return ClosingAccount{then};
}

Stage next_release_step(Context& c, After then) {
  if (c.facts.mounted) return unmount(c, then);
  if (c.facts.attached) return detach(c, then);
  return settle(c, then);
}

Stage detached(Context& c, After then) {
  c.facts.attached = false;
  c.facts.generation = 0;
  c.facts.proven = {};
  c.facts.proven_at = kNever;
  return settle(c, then);
}

}  // namespace

void remember_notice(Context& c, const NoticeSeen& notice) {
  c.facts.notice = Notice{notice.action, notice.deadline};
}

void remember_stop(Context& c, const StopRequested&) { c.facts.leave = true; }

void abandon_local_work(Context& c) {
  const Stage& stage = c.state.stage;
  const bool local =
      std::holds_alternative<FindingDevice>(stage) || std::holds_alternative<Inspecting>(stage) ||
      std::holds_alternative<Formatting>(stage) || std::holds_alternative<Mounting>(stage) ||
      std::holds_alternative<Verifying>(stage) || std::holds_alternative<FetchingCode>(stage);
  if (local && c.state.awaited) c.tell(Abandon{c.state.awaited}, c.policy.look);
}

Next leaving(Context& c) {
  if (c.facts.notice) return let_go(c, After::Release);
  if (c.facts.leave) return let_go(c, After::Exit);
  return std::nullopt;
}

// The account is written only by the one that may write to the volume, and has read it.
Stage let_go(Context& c, After then) {
  const bool keeps_account = c.facts.mounted && c.facts.ledger_known &&
                             c.facts.purpose == Purpose::Train && then != After::Survey;
  if (keeps_account) return close_account(c, then);
  if (then == After::Finish && c.facts.volume && c.facts.mounted) return unmount(c, then);
  return next_release_step(c, then);
}

Stage settle(Context& c, After then) {
  c.facts.ledger_known = false;
  if (then == After::Finish) return tidy_up(c);
  if (then == After::GiveUp) {
    if (c.policy.then == FailurePolicy::Hold) return GaveUp{};
    const bool cancel =
        c.policy.then == FailurePolicy::Cancel && c.facts.surrender != Surrender::BlockedTooLong;
    return cancel ? cancel_fleet(c) : scale_to_zero(c);
  }
  if (then == After::Exit || c.facts.leave) {
    c.tell(Exit{}, c.policy.look);
    return Leaving{};
  }
  if (c.facts.notice) {
    c.wake_at(c.facts.notice->deadline + c.policy.spared_after);
    return Released{};
  }
  return survey(c);
}

Next on(const Stopping&, const TrainerProgressed& progress, Context& c) {
  c.facts.step = progress.step;
  return std::nullopt;
}

Next on(const Stopping&, const CheckpointMade& made, Context& c) {
  c.facts.checkpoint_step = made.step;
  c.facts.ledger.newest_step = std::max(c.facts.ledger.newest_step, made.step);
  c.facts.ledger.attempts_without_progress = 0;
  return std::nullopt;
}

Next on(const Stopping& stage, const TrainerEnded& ended, Context& c) {
  c.facts.trainer_running = false;
  if (ended.success) c.facts.done = true;
  // Ended because we asked: this start is no failure of the job.
  std::uint32_t& attempts = c.facts.ledger.attempts_without_progress;
  if (!ended.success && ended.stopped_as_asked && attempts > 0) --attempts;
  return let_go(c, ended.success ? After::Finish : stage.then);
}

// A first notice while stopping for another reason, or a nearer deadline.
Next on(const Stopping& stage, const NoticeSeen& notice, Context& c) {
  remember_notice(c, notice);
  const Duration reserve =
      std::min<Duration>(c.policy.release_reserve, (notice.deadline - c.now) / 3);
  Stopping next = stage;
  if (next.then != After::GiveUp) next.then = After::Release;
  next.kill_at = std::max(c.now, std::min(stage.kill_at, notice.deadline - reserve));
  c.wake_at(next.kill_at);
  return next;
}

Next on(const Stopping& stage, const Woke&, Context& c) {
  c.tell(KillTrainer{}, c.policy.look);
  c.wake_in(kKillAgain);
  return Stopping{stage.then, stage.kill_at, true};
}

Next on(const ClosingAccount& stage, const LedgerWritten&, Context& c) {
  if (stage.then != After::Finish) return unmount(c, stage.then);
  c.ask(MarkDone{c.facts.volume}, c.policy.ec2_call);
  return MarkingDone{};
}

// The account is worth a try, not a delay: the checkpoint is what counts.
Next on(const ClosingAccount& stage, const EffectFailed&, Context& c) {
  return on(stage, LedgerWritten{}, c);
}

Next on(const Unmounting& stage, const Unmounted&, Context& c) {
  c.facts.mounted = false;
  return next_release_step(c, stage.then);
}

Next on(const Unmounting& stage, const EffectFailed&, Context& c) {
  c.wake_in(kAgain);
  return stage;
}

Next on(const Unmounting& stage, const Woke&, Context& c) { return unmount(c, stage.then); }

Next on(const Detaching& stage, const CallAccepted&, Context& c) { return detached(c, stage.then); }

Next on(const Detaching& stage, const EffectFailed& failed, Context& c) {
  const bool gone = failed.failure == Failure::Missing || failed.failure == Failure::Conflict;
  // Refused: without the permission the instance's end detaches it; nothing more can be done here.
  if (gone || failed.failure == Failure::Refused) return detached(c, stage.then);
  c.wake_in(kAgain);
  return stage;
}

Next on(const Detaching& stage, const Woke&, Context& c) { return detach(c, stage.then); }

Next on(const Released&, const NoticeWithdrawn&, Context& c) {
  c.facts.notice.reset();
  return survey(c);
}

Next on(const Released&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return settle(c, After::Exit);
}

// Alive long after the deadline: the instance was spared.
Next on(const Released&, const Woke&, Context& c) {
  c.facts.notice.reset();
  return survey(c);
}

}  // namespace spotter::decide
