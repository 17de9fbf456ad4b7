// Letting go, in the one order that loses nothing: trainer, account, unmount, detach. Whatever the
// reason (a notice, the end, a limit, a stale copy), it is this way.
#include <algorithm>

#include "agent/decide/pace.hpp"
#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Stage unmount(Context& c, After then, std::uint32_t tries) {
  c.ask(Unmount{}, c.policy.unmount);
  return Unmounting{then, tries};
}

bool job_is_over(After then) { return then == After::Finish || then == After::GiveUp; }

namespace {

// Others may see our claim only after the consistency bound. Who uses a volume for less time than
// that and then lets it go might never be seen: another agent's commit could delete what was
// written.
bool claim_settles(Context& c) {
  const Facts& facts = c.facts;
  if (facts.claimed_at == kNever || facts.purpose != Purpose::Train) return false;
  Time until = facts.claimed_at + c.policy.consistency_bound;
  if (facts.notice) until = std::min(until, facts.notice->deadline - c.policy.release_reserve / 4);
  if (c.now >= until) return false;
  c.wake_at(until);
  return true;
}

Stage detach(Context& c, After then) {
  if (claim_settles(c)) return Detaching{then};
  c.ask(DetachVolume{c.facts.volume, c.facts.instance}, c.policy.ec2_call);
  return Detaching{then};
}

Stage mark_done(Context& c) {
  c.ask(MarkDone{c.facts.volume}, c.policy.ec2_call);
  return MarkingDone{};
}

Stage write_closing(Context& c, After then) {
  if (!c.facts.ledger_known) return mark_done(c);  // what was not read is not overwritten
  Ledger& ledger = c.facts.ledger;
  account(c);
  if (then == After::Finish) ledger.done = true;
  // A person who raises the target again gets new tries.
  if (job_is_over(then)) forget_failures(c);
  c.ask(WriteLedger{ledger}, account_limit(c));
  return ClosingAccount{then};
}

// A result is called durable only after it was synced, whoever wrote it and how.
Stage close_account(Context& c, After then) {
  if (then != After::Finish) return write_closing(c, then);
  c.ask(SyncStorage{}, c.policy.unmount);
  return Securing{};
}

// The volume is whole and still: whoever has to move it will find it copied already. The call is
// short, and its answer is awaited only while there is time.
std::optional<Stage> part(Context& c, After then) {
  const Facts& facts = c.facts;
  const bool ours = facts.attached && facts.purpose == Purpose::Train && facts.generation > 0;
  const bool leaves = then == After::Release && facts.notice &&
                      facts.notice->action == InterruptionAction::Terminate;
  if (!ours || !leaves || !snapshots_pay(facts.ledger, facts.dollars_per_hour, c.policy)) {
    return std::nullopt;
  }
  const Duration left = facts.notice->deadline - c.now;
  if (left <= Duration::zero()) return std::nullopt;
  if (!facts.lineage) return std::nullopt;  // adopted a moment ago
  c.facts.imaged_at = c.now;
  c.ask(CreateSnapshot{facts.volume, facts.generation - 1, facts.lineage, facts.moves, true},
        std::min<Duration>(c.policy.ec2_call, left / c.policy.parting_share));
  return Imaging{then};
}

Stage detached(Context& c, After then) {
  c.facts.let_go = c.facts.volume;
  c.facts.let_go_at = c.now;
  c.facts.attached = false;
  c.facts.generation = 0;
  c.facts.claimed_at = kNever;
  c.facts.proven = {};
  c.facts.proven_at = kNever;
  return next_release_step(c, then);
}

}  // namespace

Stage next_release_step(Context& c, After then) {
  if (c.facts.mounted) return release(c, then);
  // Who does not know yet who it is must not detach: by now it may be another's.
  if (c.facts.attached && c.facts.instance) return detach(c, then);
  // Last: the next instance waits for the job's volume, and makes its own of data if need be.
  if (c.facts.data && c.facts.instance && then != After::Survey) return release_data(c, then);
  return settle(c, then);
}

void remember_notice(Context& c, const NoticeSeen& notice) {
  c.facts.notice = Notice{notice.action, notice.deadline, notice.held};
}

// Once nothing of the job is held here. Its answer changes nothing: the hook's own time ends the
// instance, too, only later.
void let_group_end_it(Context& c) {
  const Facts& facts = c.facts;
  const bool held = facts.notice && facts.notice->held;
  if (!held || facts.fleet.kind != FleetKind::AutoScalingGroup) return;
  c.tell(CompleteLifecycle{facts.fleet, facts.instance}, c.policy.ec2_call);
}

void remember_stop(Context& c, const StopRequested&) { c.facts.leave = true; }

// Not mkfs: half a file system is neither blank nor ours, and it takes seconds. Not what changes
// something at EC2: its outcome must be known. A share's account may be waited for in vain.
void abandon_local_work(Context& c) {
  const bool local = std::visit(
      [](const auto& stage) {
        using Now = std::decay_t<decltype(stage)>;
        return (std::is_same_v<Now, ReadingFleet> || std::is_same_v<Now, Surveying> ||
                std::is_same_v<Now, FindingDevice> || std::is_same_v<Now, Inspecting> ||
                std::is_same_v<Now, Mounting> || std::is_same_v<Now, Verifying> ||
                std::is_same_v<Now, Preparing> || std::is_same_v<Now, AwaitingGpus> ||
                std::is_same_v<Now, PreparingData> || std::is_same_v<Now, FetchingCode> ||
                std::is_same_v<Now, Filling>);
      },
      c.state.stage);
  const bool reads = on_share(c) && std::holds_alternative<ReadingAccount>(c.state.stage);
  if ((local || reads) && c.state.awaited) c.tell(Abandon{c.state.awaited}, c.policy.look);
}

Next leaving(Context& c) {
  if (c.facts.notice) return let_go(c, After::Release);
  if (c.facts.leave) return let_go(c, After::Exit);
  return std::nullopt;
}

// The account is written only by the one that may write to the volume, and has read it. On a share,
// where letting go waits for nothing, a result is synced also by one that has not.
Stage let_go(Context& c, After then) {
  if (c.facts.trainer_running) {
    const Time deadline = c.facts.notice ? c.facts.notice->deadline : c.now + c.policy.stop_grace;
    return stop_trainer(c, then, InterruptionAction::Stop, deadline);
  }
  const bool writes = c.facts.mounted && c.facts.purpose == Purpose::Train && then != After::Survey;
  const bool only_syncs = on_share(c) && then == After::Finish;
  if (writes && (c.facts.ledger_known || only_syncs)) return close_account(c, then);
  return next_release_step(c, then);
}

Stage settle(Context& c, After then) {
  c.facts.ledger_known = false;
  if (then == After::Finish) return on_share(c) ? cancel_fleet(c) : tidy_up(c);
  if (then == After::GiveUp) {
    if (c.policy.then == FailurePolicy::Hold) return rest(c, GaveUp{});
    const bool cancel =
        c.policy.then == FailurePolicy::Cancel && c.facts.surrender != Surrender::BlockedTooLong;
    return cancel ? cancel_fleet(c) : scale_to_zero(c);
  }
  if (then == After::Exit || c.facts.leave || c.policy.once) {
    c.tell(Exit{}, c.policy.look);
    return Leaving{};
  }
  if (c.facts.notice) {
    let_group_end_it(c);
    c.wake_at(c.facts.notice->deadline + c.policy.spared_after);
    return Released{};
  }
  if (then == After::GiveBack) return give_back(c, 0);
  // The notice was withdrawn: of an agent that did not know yet who it is, or whether it is alone.
  if (!c.facts.instance) return identify(c, 0);
  return on_share(c) && !c.policy.once ? read_fleet(c, 0) : prepare(c);
}

Next on(const Stopping&, const TrainerProgressed& progress, Context& c) {
  c.facts.step = c.facts.ledger.reached = progress.step;
  return std::nullopt;
}

Next on(const Stopping&, const CheckpointMade& made, Context& c) {
  c.facts.checkpoint_step = made.step;
  learn_stall(c.facts.ledger, made.stall);
  c.facts.ledger.newest_step = std::max(c.facts.ledger.newest_step, made.step);
  forget_failures(c);
  return std::nullopt;
}

Next on(const Stopping& stage, const TrainerEnded& ended, Context& c) {
  trainer_gone(c, ended, stage.then == After::Release);
  if (ended.success) c.facts.done = true;
  // Ended because we asked: this start is no failure of the job.
  std::uint32_t& starts = c.facts.ledger.starts_without_progress;
  if (!ended.success && ended.stopped_as_asked && starts > 0) --starts;
  return let_go(c, ended.success ? After::Finish : stage.then);
}

// A first notice while stopping for another reason, or a nearer deadline.
Next on(const Stopping& stage, const NoticeSeen& notice, Context& c) {
  const bool trains_on = c.facts.notice.has_value();
  remember_notice(c, notice);
  const Duration reserve =
      std::min<Duration>(c.policy.release_reserve, (notice.deadline - c.now) / 3);
  Stopping next = stage;
  if (next.then != After::GiveUp) next.then = After::Release;
  next.kill_at = std::max(c.now, std::min(stage.kill_at, notice.deadline - reserve));
  if (!trains_on || next.kill_at < stage.kill_at) {
    const Time usable_until = trains_on ? next.kill_at : kNever;
    c.tell(StopTrainer{notice.action, notice.deadline, usable_until, true}, c.policy.start_trainer);
  }
  c.wake_at(next.kill_at);
  return next;
}

// Not even SIGKILL ends it: stuck in the kernel. If the job is over, the fleet is ended without it.
Next on(const Stopping& stage, const Woke&, Context& c) {
  if (stage.kills >= c.policy.stuck_tries && job_is_over(stage.then)) return settle(c, stage.then);
  if (on_share(c) && stage.kills >= c.policy.share_kills) {
    trainer_gone(c, {}, false);
    return let_go(c, stage.then);
  }
  c.tell(KillTrainer{}, c.policy.look);
  c.wake_in(c.policy.kill_again);
  return Stopping{stage.then, stage.kill_at, stage.kills + 1};
}

Next on(const Securing&, const StorageSynced&, Context& c) {
  return write_closing(c, After::Finish);
}

// What was written is lost: the trainer goes on from its newest checkpoint and writes it again.
Next on(const Securing&, const EffectFailed& failed, Context& c) {
  c.facts.done = c.facts.ended_success = false;
  if (Next end = leaving(c)) return end;
  return block(c, Block::MountFailed, failed.detail);
}

Next on(const ClosingAccount& stage, const LedgerWritten&, Context& c) {
  return stage.then == After::Finish ? mark_done(c) : release(c, stage.then);
}

// The account is worth a try, not a delay: the checkpoint is what counts. But machines that lack
// what the job needs must be counted somewhere, or they are changed for ever.
Next on(const ClosingAccount& stage, const EffectFailed& failed, Context& c) {
  if (stage.then == After::GiveBack && !c.facts.notice && !c.facts.leave) {
    c.facts.blocked += c.policy.await_gpus;
    return block(c, Block::MountFailed, failed.detail);
  }
  return on(stage, LedgerWritten{}, c);
}

Next on(const Unmounting& stage, const Unmounted&, Context& c) {
  c.facts.mounted = c.facts.ended_success = false;
  if (const auto parting = part(c, stage.then)) return *parting;
  return next_release_step(c, stage.then);
}

Next on(const Imaging& stage, const SnapshotStarted&, Context& c) {
  c.facts.imaged_at = kNever;
  return next_release_step(c, stage.then);
}

// It was worth a try.
Next on(const Imaging& stage, const EffectFailed&, Context& c) {
  return next_release_step(c, stage.then);
}

Next on(const Unmounting& stage, const EffectFailed&, Context& c) {
  if (stage.tries >= c.policy.stuck_tries && job_is_over(stage.then)) return settle(c, stage.then);
  c.wake_in(c.policy.release_again);
  return stage;
}

Next on(const Unmounting& stage, const Woke&, Context& c) {
  return unmount(c, stage.then, stage.tries + 1);
}

Next on(const Detaching& stage, const CallAccepted&, Context& c) { return detached(c, stage.then); }

Next on(const Detaching& stage, const EffectFailed& failed, Context& c) {
  const bool gone = failed.failure == Failure::Missing || failed.failure == Failure::Conflict;
  // Refused: without the permission the instance's end detaches it; nothing more can be done here.
  const bool hopeless = failed.failure == Failure::Refused || failed.failure == Failure::Rejected;
  if (gone || hopeless) return detached(c, stage.then);
  c.wake_in(c.policy.release_again);
  return stage;
}

Next on(const Detaching& stage, const Woke&, Context& c) { return detach(c, stage.then); }

Next on(const Released&, const NoticeSeen& notice, Context& c) {
  remember_notice(c, notice);
  let_group_end_it(c);
  c.wake_at(notice.deadline + c.policy.spared_after);
  return Released{};
}

Next on(const Released&, const NoticeWithdrawn&, Context& c) {
  c.facts.notice.reset();
  return identify(c, 0);
}

Next on(const Released&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return settle(c, After::Exit);
}

// Alive long after the deadline: the instance was spared.
Next on(const Released&, const Woke&, Context& c) {
  c.facts.notice.reset();
  return identify(c, 0);
}

}  // namespace spotter::decide
