// Releasing the storage, in the one order that loses nothing: trainer, ledger, unmount, detach. The
// order is the same for every reason: a notice, the end, a limit, a stale copy.
#include <algorithm>
#include <utility>

#include "agent/decide/pace.hpp"
#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Unmount unmount_of(const Context& c) {
  return {c.facts.holding.volume, c.facts.holding.attached_as};
}

Stage unmount(Context& c, ReleaseGoal then, std::uint32_t tries) {
  c.ask(unmount_of(c), c.policy.unmount);
  return Unmounting{then, tries};
}

bool job_is_over(ReleaseGoal then) {
  return then == ReleaseGoal::Finish || then == ReleaseGoal::GiveUp;
}

namespace {

// Others may see our claim only later. If we released the volume sooner, another agent's commit
// could delete what we wrote.
bool claim_settles(Context& c) {
  const Facts& facts = c.facts;
  if (facts.holding.claimed_at == kNever || facts.holding.purpose != Purpose::Train) return false;
  if (c.policy.fence) return false;  // our epoch is seen at once
  Time until = claim_known_at(c);
  if (facts.exit.notice)
    until = std::min(until, facts.exit.notice->deadline - c.policy.release_reserve / 4);
  if (c.now >= until) return false;
  c.wake_at(until);
  return true;
}

Stage detach(Context& c, ReleaseGoal then) {
  if (claim_settles(c)) return Detaching{then};
  c.ask(DetachVolume{c.facts.holding.volume, c.facts.identity.instance}, c.policy.ec2_call);
  return Detaching{then};
}

Stage mark_done(Context& c) {
  if (in_bucket(c)) return mark_home_done(c);
  c.ask(MarkDone{c.facts.holding.volume}, c.policy.ec2_call);
  return MarkingDone{};
}

// The result for whoever is not on this machine. It is durable here already, so that what fails is
// only said; but who leaves meanwhile leaves it to the next session, which finds the ledger done.
Stage send_result(Context& c, std::uint32_t failures) {
  if (!c.policy.sends_result) return mark_done(c);
  Duration limit = c.policy.send_result;
  if (const Time by = leaves_by(c); by != kNever)
    limit = std::clamp<Duration>(by - c.policy.release_reserve / 2 - c.now, Duration(1), limit);
  c.ask(SendResult{}, limit);
  return SendingResult{failures};
}

Stage write_closing(Context& c, ReleaseGoal then) {
  if (!c.facts.progress.ledger_known) return send_result(c, 0);  // what was not read stays as it is
  Ledger& ledger = c.facts.progress.ledger;
  count_spending(c);
  if (then == ReleaseGoal::Finish) ledger.done = true;
  ledger.given_up = then == ReleaseGoal::GiveUp;
  // A person who raises the target again gets new tries.
  if (job_is_over(then)) reset_failures(c);
  c.ask(ledger_to_write(c), ledger_limit(c));
  limit_keeping(c);
  return ClosingLedger{then};
}

// A result is called durable only after it was synced, whoever wrote it and how.
Stage close_ledger(Context& c, ReleaseGoal then) {
  if (then != ReleaseGoal::Finish) return write_closing(c, then);
  c.facts.home.changed = true;
  c.ask(SyncStorage{}, c.policy.unmount);
  limit_keeping(c);
  return Securing{};
}

// Has everybody seen the generation in which we use the volume? If so, the next agent to use it
// takes another one, and so does this one if it lives on.
bool generation_is_known(const Context& c) {
  if (c.policy.fence) return true;
  return c.facts.holding.claimed_at != kNever && c.now >= claim_known_at(c);
}

// The volume is unmounted and does not change: this is the snapshot that its move makes a copy of.
// The call is short, and its answer is awaited only while there is time. If another instance may
// use our generation again, the move takes its own snapshot, and finds most of it copied.
std::optional<Stage> begin_final_snapshot(Context& c, ReleaseGoal then) {
  if (c.policy.fills && c.policy.sends_result) return std::nullopt;  // it only reads
  const Facts& facts = c.facts;
  const bool ours = facts.holding.attached && facts.holding.purpose == Purpose::Train &&
                    facts.holding.generation > 0;
  const bool leaves = then == ReleaseGoal::Release && facts.exit.notice &&
                      facts.exit.notice->action == InterruptionAction::Terminate;
  if (!ours || !leaves ||
      !snapshots_pay(facts.progress.ledger, facts.identity.dollars_per_hour, c.policy)) {
    return std::nullopt;
  }
  const Duration left = facts.exit.notice->deadline - c.now;
  if (left <= Duration::zero()) return std::nullopt;
  if (!facts.move.lineage) return std::nullopt;  // adopted, and not surveyed yet
  c.facts.move.snapshot_asked_ahead_at = c.now;
  if (c.policy.fence) c.facts.fence.ours = 0;
  const bool known = generation_is_known(c);
  c.ask(
      CreateSnapshot{facts.holding.volume, facts.holding.generation - (known ? 0 : 1),
                     facts.move.lineage, facts.move.moves, known ? Taken::Released : Taken::InUse},
      std::min<Duration>(c.policy.ec2_call, left / c.policy.final_snapshot_share));
  return FinalSnapshot{then};
}

// The bucket gets what it has not yet, and what S3 does not take now it may take a moment later.
// Zero: it may not. There is no hurry if the notice was withdrawn, or the machine lacks what the
// job needs; and without S3 no other machine would train.
Duration asked_again_in(const EffectFailed& failed, ReleaseGoal then, const Context& c) {
  const bool passes =
      failed.failure == Failure::Unavailable || failed.failure == Failure::Abandoned;
  if (!in_bucket(c) || !passes) return Duration::zero();
  const Time until = leaves_by(c);
  if (until == kNever) {
    const bool waits = then == ReleaseGoal::Release || then == ReleaseGoal::GiveBack;
    return waits ? c.policy.blocked_retry : Duration::zero();
  }
  const Duration left = until - c.now;
  if (left <= 2 * c.policy.keep_reserve + c.policy.release_again) return Duration::zero();
  return std::clamp<Duration>(left / 32, c.policy.release_again, c.policy.retry_last);
}

Stage detached(Context& c, ReleaseGoal then) {
  Facts::Holding& holding = c.facts.holding;
  holding.released = holding.volume;
  holding.released_at = c.now;
  holding.attached = holding.unproven = false;
  holding.generation = 0;
  holding.claimed_at = kNever;
  c.facts.move.verified = {};
  c.facts.move.marked = false;
  return next_release_step(c, then);
}

// From then on EC2 will not terminate the instance any more. REQUIRES: there is a notice.
Time spared_at(const Context& c) {
  const Notice& notice = *c.facts.exit.notice;
  return notice.deadline + notice.leeway + c.policy.spared_after;
}

// A volume that cannot be proven to be unmounted is never detached, and nothing says that it is
// released. The session ends all the same, or goes on if the machine does.
Next leave_in_use(const Unmounting& stage, const EffectFailed& failed, Context& c) {
  Facts::Exit& exit = c.facts.exit;
  const bool spared = exit.notice && c.now >= spared_at(c);
  if (spared) exit.notice.reset();
  if (stage.then == ReleaseGoal::Release && !exit.notice) return identify(c, 0);
  // This session has not mounted it: an earlier one, or a person, elsewhere.
  if (c.facts.holding.mounted || !c.facts.holding.unproven) return std::nullopt;
  if (exit.leave && c.now >= exit.leave_by && !job_is_over(stage.then))
    return settle(c, stage.then);
  const bool in_vain = stage.then == ReleaseGoal::Survey && stage.tries >= c.policy.stuck_tries;
  if (in_vain) return block(c, Block::MountFailed, failed.detail);
  return std::nullopt;
}

}  // namespace

Stage next_release_step(Context& c, ReleaseGoal then) {
  const Facts::Holding& holding = c.facts.holding;
  if (holding.mounted || (holding.attached && holding.unproven)) return release(c, then);
  if (const auto epoch = release_epoch(c, then)) return *epoch;
  // Before the instance id is known it must not detach: the volume may be another instance's.
  if (holding.attached && c.facts.identity.instance) return detach(c, then);
  // Last: the next instance waits for the job's volume; volumes of data it can make itself.
  if (holding.data && c.facts.identity.instance && then != ReleaseGoal::Survey)
    return release_data(c, then);
  return settle(c, then);
}

void remember_notice(Context& c, const NoticeSeen& notice) {
  c.facts.exit.notice = Notice{notice.action, notice.deadline, notice.held, notice.leeway};
}

// Called when nothing of the job is held here. A failure changes nothing: the hook's timeout ends
// the instance, too, only later.
void complete_lifecycle(Context& c) {
  const Facts& facts = c.facts;
  const bool held = facts.exit.notice && facts.exit.notice->held;
  if (!held || facts.identity.fleet.kind != FleetKind::AutoScalingGroup) return;
  c.issue(CompleteLifecycle{facts.identity.fleet, facts.identity.instance}, c.policy.ec2_call);
}

void remember_stop(Context& c, const StopRequested& stop) {
  c.facts.exit.leave = true;
  c.facts.exit.leave_by = stop.deadline;
}

// Mkfs is not abandoned: half a file system is neither blank nor ours, and it takes seconds. Nor is
// a call that changes something at EC2: its outcome must be known. Reading a share's ledger is: it
// may never end.
void abandon_local_work(Context& c) {
  if (brings_newer(c)) return limit_bringing(c);
  const bool local = std::visit(
      [](const auto& stage) {
        using Now = std::decay_t<decltype(stage)>;
        return (std::is_same_v<Now, ReadingFleet> || std::is_same_v<Now, Surveying> ||
                std::is_same_v<Now, FindingDevice> || std::is_same_v<Now, Inspecting> ||
                std::is_same_v<Now, Mounting> || std::is_same_v<Now, Verifying> ||
                std::is_same_v<Now, Preparing> || std::is_same_v<Now, AwaitingGpus> ||
                std::is_same_v<Now, PreparingData> || std::is_same_v<Now, FetchingCode> ||
                std::is_same_v<Now, Filling> || std::is_same_v<Now, SendingResult>);
      },
      c.state.stage);
  const bool reads = on_share(c) && std::holds_alternative<ReadingLedger>(c.state.stage);
  if ((local || reads) && c.state.awaited) c.issue(Abandon{c.state.awaited}, c.policy.look);
  const bool rests = std::holds_alternative<SendingResult>(c.state.stage) && !c.state.awaited;
  if (rests) c.wake_at(c.now);
  hurry_keeping(c);
}

Next leaving(Context& c) {
  if (c.facts.exit.notice) return release_storage(c, ReleaseGoal::Release);
  if (c.facts.exit.leave) return release_storage(c, ReleaseGoal::Exit);
  return std::nullopt;
}

// Only an agent that may write to the volume and has read the ledger writes it. A result is synced
// also without that: releasing a share waits for nothing, and an unmount may be in vain.
Stage release_storage(Context& c, ReleaseGoal then) {
  if (c.facts.trainer.running) {
    const Time deadline =
        c.facts.exit.notice ? c.facts.exit.notice->deadline : c.now + c.policy.stop_grace;
    return stop_trainer(c, then, InterruptionAction::Stop, deadline);
  }
  // Without an epoch that is ours nothing can be committed, a result neither.
  const bool in_vain = in_bucket(c) && (c.facts.fence.ours == 0 || !c.facts.progress.ledger_known);
  if (in_vain && then == ReleaseGoal::Finish && c.facts.fence.epoch.state != Epoch::State::Done) {
    c.facts.exit.done = false;
    return next_release_step(c, ReleaseGoal::Survey);
  }
  if (const auto brings = bring_newer(c, then)) return *brings;
  const bool writes = c.facts.holding.mounted && c.facts.holding.purpose == Purpose::Train &&
                      then != ReleaseGoal::Survey;
  const bool only_syncs =
      then == ReleaseGoal::Finish && (on_share(c) || c.facts.trainer.ended_success);
  if (writes && (c.facts.progress.ledger_known || only_syncs)) return close_ledger(c, then);
  return next_release_step(c, then);
}

Stage settle(Context& c, ReleaseGoal then) {
  c.facts.progress.ledger_known = false;
  if (then == ReleaseGoal::Finish) return on_share(c) ? cancel_fleet(c) : tidy_up(c);
  if (then == ReleaseGoal::GiveUp) {
    if (c.policy.then == GiveUp::Hold) return hold(c);
    const bool cancel =
        c.policy.then == GiveUp::Cancel && c.facts.exit.surrender != Surrender::BlockedTooLong;
    return cancel ? cancel_fleet(c) : end_fleet(c, ScalingToZero{});
  }
  if (then == ReleaseGoal::Exit || c.facts.exit.leave || c.policy.foreground) {
    c.issue(Exit{}, c.policy.look);
    return Leaving{};
  }
  if (c.facts.exit.notice) {
    complete_lifecycle(c);
    c.wake_at(spared_at(c));
    return Released{};
  }
  if (then == ReleaseGoal::GiveBack) return give_back(c, 0);
  // The notice was withdrawn before the instance id was known, or the fleet of a share.
  if (!c.facts.identity.instance) return identify(c, 0);
  return on_share(c) && !c.policy.foreground ? read_fleet(c, 0) : prepare(c);
}

// The next session finishes the job.
Next leaves_unfinished(Context& c) {
  if (!c.facts.exit.notice && !c.facts.exit.leave) return std::nullopt;
  c.facts.exit.done = false;
  return release(c, c.facts.exit.notice ? ReleaseGoal::Release : ReleaseGoal::Exit);
}

Next on(const SendingResult&, const ResultSent&, Context& c) { return mark_done(c); }

Next on(const SendingResult& stage, const EffectFailed& failed, Context& c) {
  if (Next end = leaves_unfinished(c)) return end;
  const bool passes = failed.failure != Failure::Refused && failed.failure != Failure::Rejected;
  if (!passes || stage.failures + 1 >= c.policy.send_tries) return mark_done(c);
  c.wake_in(c.policy.retry_last);
  return SendingResult{stage.failures + 1};
}

Next on(const SendingResult& stage, const Woke&, Context& c) {
  if (Next end = leaves_unfinished(c)) return end;
  return send_result(c, stage.failures);
}

Next on(const Securing&, const StorageSynced&, Context& c) {
  return write_closing(c, ReleaseGoal::Finish);
}

// The result is lost: the trainer resumes from its newest checkpoint and writes it again.
Next on(const Securing&, const EffectFailed& failed, Context& c) {
  c.facts.exit.done = c.facts.trainer.ended_success = false;
  if (Next end = leaving(c)) return end;
  return block(c, Block::MountFailed, failed.detail);
}

Next on(const ClosingLedger& stage, const LedgerWritten&, Context& c) {
  return stage.then == ReleaseGoal::Finish ? send_result(c, 0) : release(c, stage.then);
}

// The ledger is tried only once unless asked_again_in() gives a time, for only the checkpoint
// matters. But machines that lack what the job needs must be counted somewhere, or they are
// replaced for ever. A gang counts in its record, and the share may be what hangs on the machine
// that it gives back.
Next on(const ClosingLedger& stage, const EffectFailed& failed, Context& c) {
  if (const Duration pause = asked_again_in(failed, stage.then, c); pause > Duration::zero()) {
    c.wake_in(pause);
    return stage;
  }
  if (in_bucket(c) && stage.then == ReleaseGoal::Finish) {
    if (Next end = leaves_unfinished(c)) return end;
    return home_failed(c, failed);
  }
  const bool must_count = stage.then == ReleaseGoal::GiveBack && !c.facts.exit.hinders_gang;
  if (must_count && !c.facts.exit.notice && !c.facts.exit.leave) {
    c.facts.trouble.blocked += c.policy.await_gpus;
    c.facts.exit.unfit = false;  // what is not written was not counted
    return block(c, Block::MountFailed, failed.detail);
  }
  return on(stage, LedgerWritten{}, c);
}

Next on(const ClosingLedger& stage, const Woke&, Context& c) {
  if (c.state.awaited) {
    end_keeping(c);
    return std::nullopt;
  }
  c.ask(ledger_to_write(c), ledger_limit(c));
  limit_keeping(c);
  return stage;
}

Next on(const Unmounting& stage, const Unmounted&, Context& c) {
  Facts::Holding& holding = c.facts.holding;
  const bool was_mounted = std::exchange(holding.mounted, false);
  holding.unproven = c.facts.trainer.ended_success = false;
  if (stage.then == ReleaseGoal::Survey) c.facts.trouble.left_since = kNever;
  const auto snapshot = was_mounted ? begin_final_snapshot(c, stage.then) : std::nullopt;
  if (snapshot) return *snapshot;
  return next_release_step(c, stage.then);
}

Next on(const FinalSnapshot& stage, const SnapshotStarted&, Context& c) {
  c.facts.move.snapshot_asked_ahead_at = kNever;
  return next_release_step(c, stage.then);
}

Next on(const Unmounting& stage, const EffectFailed& failed, Context& c) {
  if (Next next = leave_in_use(stage, failed, c)) return next;
  // A process that does not end keeps it busy until the machine ends, which is soon after a notice.
  const bool given_back = stage.then == ReleaseGoal::GiveBack && !c.facts.exit.notice;
  if (stage.tries >= c.policy.stuck_tries && (given_back || job_is_over(stage.then))) {
    // Volumes of data are mounted elsewhere, and nobody removes them after the job's end.
    const bool data = c.facts.holding.data && c.facts.identity.instance && !given_back;
    return data ? release_data(c, stage.then) : settle(c, stage.then);
  }
  // Its attachment is to end, and no look says what would free it: others wait for this machine.
  // An attempt is counted only for storage that is still ours.
  if (stage.tries >= c.policy.stuck_tries && stage.then == ReleaseGoal::Survey && !on_share(c) &&
      c.facts.progress.ledger_known) {
    if (Next end = leaving(c)) return end;
    return outlast(c, failed);
  }
  c.wake_in(c.policy.release_again);
  return stage;
}

Next on(const Unmounting& stage, const Woke&, Context& c) {
  return unmount(c, stage.then, stage.tries + 1);
}

Next on(const Detaching& stage, const CallAccepted&, Context& c) { return detached(c, stage.then); }

Next on(const Detaching& stage, const EffectFailed& failed, Context& c) {
  const bool gone = failed.failure == Failure::Missing || failed.failure == Failure::Conflict;
  // Refused: without the permission only the instance's end detaches it.
  const bool hopeless = failed.failure == Failure::Refused || failed.failure == Failure::Rejected;
  if (gone || hopeless) return detached(c, stage.then);
  c.wake_in(c.policy.release_again);
  return stage;
}

Next on(const Detaching& stage, const Woke&, Context& c) { return detach(c, stage.then); }

Next on(const Released&, const NoticeSeen& notice, Context& c) {
  remember_notice(c, notice);
  complete_lifecycle(c);
  c.wake_at(spared_at(c));
  return Released{};
}

Next on(const Released&, const NoticeWithdrawn&, Context& c) {
  c.facts.exit.notice.reset();
  return identify(c, 0);
}

// Long after the deadline: EC2 did not terminate the instance.
Next on(const Released& stage, const Woke&, Context& c) { return on(stage, NoticeWithdrawn{}, c); }

}  // namespace spotter::decide
