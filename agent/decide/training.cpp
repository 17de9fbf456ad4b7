// The long stage. The trainer works; the agent watches it, keeps the ledger, and removes what an
// earlier move left as soon as a checkpoint of this trainer is durable.
#include <algorithm>
#include <utility>

#include "agent/decide/pace.hpp"
#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

void plan_wake(const Training& stage, Context& c) {
  c.wake_at(std::min(stage.next_ledger, stage.next_tidy));
}

void pace(Context& c, Time asked) {
  const Duration interval = checkpoint_every(c.facts.progress.ledger, c.policy);
  c.facts.trainer.advised_interval = interval;
  c.issue(PaceTrainer{interval, asked}, c.policy.start_trainer);
}

// Only when it matters: each advice is a file that is written and read.
void keep_pace(Context& c) {
  const Duration now = checkpoint_every(c.facts.progress.ledger, c.policy);
  const Duration advised = c.facts.trainer.advised_interval;
  const Duration differs = now > advised ? now - advised : advised - now;
  const std::chrono::duration<double> bearable = advised * c.policy.pace_change;
  if (differs > bearable) pace(c, kNever);
}

// A ledger that was not read must not be overwritten: read it first, and write the next time.
void write_ledger(Training& stage, Context& c) {
  stage.next_ledger = c.now + c.policy.ledger_every;
  if (c.facts.progress.ledger_known) {
    count_spending(c);
    keep_pace(c);
    if (in_bucket(c)) {
      keep_home(c);
    } else {
      c.issue(ledger_to_write(c), c.policy.ledger);
    }
  }
  // A question for the fleet comes first.
  const Facts::Identity& identity = c.facts.identity;
  const bool sums =
      c.policy.sums_costs && (identity.fleet_known || identity.fleet_asked_at == kNever);
  const bool reads = !c.facts.progress.ledger_known || sums;
  if (reads && !c.state.awaited) c.ask(ReadLedger{}, c.policy.ledger);
}

// Its tags may have come by now: a group's hooks and the end of the job need it.
void ask_fleet_again(const Training& stage, Context& c) {
  const Facts::Identity& identity = c.facts.identity;
  if (identity.fleet_known || identity.fleet_asked_at == kNever) return;
  if (stage.tidying || c.state.awaited || c.now >= stage.next_tidy) return;
  ask_for_fleet(c);
}

bool snapshots_pay(const Context& c) {
  return !on_share(c) &&
         snapshots_pay(c.facts.progress.ledger, c.facts.identity.dollars_per_hour, c.policy);
}

// After a durable checkpoint, not too often, and never while another survey is under way.
void snapshot_soon(Training& stage, const Context& c) {
  if (!stage.changed || stage.tidying || c.now < stage.next_snapshot || !snapshots_pay(c)) return;
  stage.snapshot_due = true;
  stage.next_tidy = c.now;
}

// The generation that the snapshot belongs to: the one before the present one, which is not over.
// None: EC2 does not show the volume as attached here, or another snapshot is pending.
std::optional<std::uint32_t> snapshot_generation(const Survey& survey, const Context& c) {
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    if (snapshot.state == SnapshotState::Pending) return std::nullopt;
  }
  for (const SeenVolume& volume : survey.volumes) {
    const bool ours =
        volume.id == c.facts.holding.volume && volume.holder == c.facts.identity.instance;
    if (ours && volume.generation > 0) return volume.generation - 1;
  }
  return std::nullopt;
}

// A share is never moved: nothing is left to remove.
Time next_round(const Context& c) { return on_share(c) ? kNever : c.now + c.policy.tidy_every; }

Training tidying_later(Training stage, bool clean, Context& c) {
  stage.tidying = stage.snapshot_due = false;
  stage.tidied = stage.tidied || clean;
  stage.next_tidy = next_round(c);
  if (stage.learns) stage.next_tidy = c.now + backoff(c.policy, c.facts.trouble.retries++);
  plan_wake(stage, c);
  return stage;
}

// The ledger records the first report at once: the next agent must know that this trainer reports,
// and hangs when it does not.
Next note_report(const Training& training, Context& c) {
  c.facts.trainer.reported_at = c.now;
  if (c.facts.progress.ledger.speaks || !c.facts.progress.ledger_known) return std::nullopt;
  c.facts.progress.ledger.speaks = true;
  Training stage = training;
  write_ledger(stage, c);
  plan_wake(stage, c);
  return stage;
}

// Ending the trainer: it is asked to stop, and killed while there is still time to release all.

// The time that the storage's release needs. Checkpoints that come with their stall are
// libspotter's: such a trainer has ended only when its last one is durable, and the unmount finds
// little to write.
Duration release_needs(const Context& c) {
  const bool durable = c.facts.progress.ledger.stall > 0 && !on_share(c);
  return durable ? c.policy.release_durable : c.policy.release_reserve;
}

Time last_kill(const Context& c, Time deadline) {
  const Duration left = deadline - c.now;
  return deadline - std::max(std::min<Duration>(release_needs(c), left / 3), upload_needs(c));
}

// Stopped in time it loses nothing; any other end but success loses what was not written yet.
void count_trainer_end(Context& c, const TrainerEnded& ended, bool announced) {
  count_spending(c);  // while it still counts as running
  Ledger& ledger = c.facts.progress.ledger;
  c.facts.trainer.running = false;
  c.facts.trainer.ended_success = ended.success;
  ledger.running = false;
  if (!ended.success && !ended.stopped_as_asked) {
    ++ledger.losses;
    if (!announced) ++ledger.crashes;
  }
  if (!ended.success && ended.stopped_as_asked && announced) ++ledger.releases;
}

}  // namespace

Stage train(Context& c) {
  c.facts.trouble.blocked = {};
  c.facts.trouble.left_since = kNever;
  c.facts.exit.unfit = false;
  c.facts.home.newer = in_bucket(c);
  c.facts.trainer.reported_at = c.now;
  if (c.facts.progress.counted_until == kNever) c.facts.progress.counted_until = c.now;
  if (c.facts.exit.notice) {
    return stop_trainer(c, ReleaseGoal::Release, c.facts.exit.notice->action,
                        c.facts.exit.notice->deadline);
  }
  if (c.facts.exit.leave) {
    return stop_trainer(c, ReleaseGoal::Exit, InterruptionAction::Stop,
                        c.now + c.policy.stop_grace);
  }
  Training stage;
  stage.next_snapshot = c.now;
  stage.next_ledger = c.now + c.policy.ledger_every;
  stage.next_tidy = next_round(c);
  // Adopted: a notice may come soon, and what is released then needs the line and its epoch.
  stage.learns = !on_share(c) && !c.facts.move.lineage;
  if (stage.learns) stage.next_tidy = c.now;
  stage.tidied = on_share(c);
  c.facts.home.keeping_since = kNever;
  if (in_bucket(c) && c.facts.fence.ours == 0) stage.next_tidy = c.now;  // an adopted trainer
  plan_wake(stage, c);
  return stage;
}

void reset_failures(Context& c) {
  c.facts.progress.ledger.attempts_without_progress = 0;
  c.facts.progress.ledger.starts_without_progress = 0;
}

// A checkpoint that is newer than any before. A trainer that hung has run for long, too: that it
// did is no progress.
void count_progress(std::int64_t step, Context& c) {
  c.facts.progress.ledger.newest_step = step;
  c.facts.progress.ledger.hangs_without_progress = 0;
  reset_failures(c);
}

// A crash of the agent loses at most `ledger_every`.
void count_spending(Context& c) {
  if (c.facts.progress.counted_until == kNever) return;
  const auto until_now = [&c](Time from) {
    return std::chrono::duration<double>(c.now - from).count();
  };
  const Time since = c.facts.progress.counted_until;
  const double spent = until_now(since);
  Ledger& ledger = c.facts.progress.ledger;
  ledger.seconds += spent;
  ledger.dollars += spent / 3600 * c.facts.identity.dollars_per_hour;
  const Time started = c.facts.trainer.started_at;  // kNever: by an earlier session
  if (c.facts.trainer.running)
    ledger.trained += until_now(started == kNever ? since : std::max(since, started));
  c.facts.progress.counted_until = c.now;
}

Stage give_up(Context& c, Surrender why) {
  c.facts.exit.surrender = why;
  if (c.facts.trainer.running) {
    return stop_trainer(c, ReleaseGoal::GiveUp, InterruptionAction::Stop,
                        c.now + c.policy.stop_grace);
  }
  return release_storage(c, ReleaseGoal::GiveUp);
}

Next on(const Training& training, const TrainerProgressed& progress, Context& c) {
  c.facts.trainer.step = c.facts.progress.ledger.reached = progress.step;
  if (!progress.logged) return note_report(training, c);
  // An epoch, and so the pause between two lines, may be longer than a trainer may be silent.
  c.facts.trainer.reported_at = c.now;
  return std::nullopt;
}

Next on(const Training& training, const TrainerResumed& resumed, Context& c) {
  Ledger& ledger = c.facts.progress.ledger;
  if (resumed.step < ledger.reached)
    ledger.repeated += static_cast<std::uint64_t>(ledger.reached - resumed.step);
  c.facts.trainer.resumed_step = c.facts.trainer.step = ledger.reached = resumed.step;
  return note_report(training, c);
}

Next on(const Training& training, const CheckpointMade& made, Context& c) {
  Training stage = training;
  c.facts.trainer.reported_at = c.now;
  c.facts.progress.checkpoint_step = made.step;
  c.facts.progress.counts_writes = made.write;
  c.facts.trainer.checkpoint_at = c.now;
  learn_stall(c.facts.progress.ledger, made.stall);
  keep_pace(c);
  if (made.step > c.facts.progress.ledger.newest_step) {
    const bool had_failed = c.facts.progress.ledger.attempts_without_progress != 0 ||
                            c.facts.progress.ledger.starts_without_progress != 0;
    count_progress(made.step, c);
    c.facts.trouble.crashes = 0;
    if (had_failed) write_ledger(stage, c);
  }
  if (!stage.tidied && !stage.tidying && !stage.tidy_advanced) {
    stage.next_tidy = c.now;  // what an earlier move left is obsolete now
    stage.tidy_advanced = true;
  }
  stage.changed = c.facts.home.changed = true;
  if (in_bucket(c) && c.facts.home.keeping_since == kNever) write_ledger(stage, c);
  snapshot_soon(stage, c);
  plan_wake(stage, c);
  return stage;
}

// Mostly no interruption follows: worth a checkpoint, never the end of training.
Next on(const Training& training, const RebalanceRecommended&, Context& c) {
  Training stage = training;
  const Time since = c.facts.trainer.checkpoint_at != kNever ? c.facts.trainer.checkpoint_at
                                                             : c.facts.trainer.started_at;
  const Duration at_risk = since != kNever ? c.now - since : c.policy.checkpoint_most;
  stage.next_snapshot = c.now;
  const bool pays = hint_pays(c.facts.progress.ledger, at_risk, c.policy);
  if (pays) pace(c, c.now);
  if (!pays) snapshot_soon(stage, c);  // else after the checkpoint that was asked for
  plan_wake(stage, c);
  return stage;
}

Next on(const Training&, const TrainerEnded& ended, Context& c) { return trainer_ended(c, ended); }

namespace {

// No trainer ran: that is no attempt.
Stage wait_for_setup(Context& c) {
  Ledger& ledger = c.facts.progress.ledger;
  if (ledger.starts_without_progress > 0) --ledger.starts_without_progress;
  if (c.facts.progress.ledger_known) c.issue(ledger_to_write(c), c.policy.ledger);
  // Each try starts a trainer, which otherwise ends the time that a person was needed.
  Facts::Trouble& trouble = c.facts.trouble;
  const Time started = c.facts.trainer.started_at;
  if (started != kNever) trouble.setups += c.now - started;
  trouble.blocked = trouble.setups;
  trouble.setups += c.policy.blocked_retry;
  return block(c, Block::SetupFailed, {});
}

}  // namespace

Next trainer_ended(Context& c, const TrainerEnded& ended) {
  if (ended.setup_failed) {
    count_spending(c);
    c.facts.trainer.running = c.facts.progress.ledger.running = false;
    return wait_for_setup(c);
  }
  c.facts.trouble.setups = {};
  count_trainer_end(c, ended, false);
  if (ended.success) {
    c.facts.progress.ledger.stopped_early = {};
    c.facts.exit.done = true;
    return release_storage(c, ReleaseGoal::Finish);
  }
  if (ended.unfit_machine && is_replaced(c)) return leave_gang(c);
  const bool settled = c.facts.trainer.started_at != kNever &&
                       c.now - c.facts.trainer.started_at >= c.policy.settled;
  if (settled) reset_failures(c);
  // Ended because an earlier agent or a person asked: no failure, and its start is counted. Nor was
  // that an attempt which may have failed for its checkpoint.
  if (!ended.stopped_as_asked && !ended.checkpoint_doubted)
    ++c.facts.progress.ledger.attempts_without_progress;
  if (c.facts.progress.ledger.attempts_without_progress >= c.policy.attempts_without_progress)
    return give_up(c, Surrender::NoProgress);
  const std::uint32_t doublings = std::min<std::uint32_t>(c.facts.trouble.crashes++, 10);
  return wait(c, Wait::TrainerRestart,
              std::min(c.policy.restart_last, c.policy.restart_first * (1 << doublings)));
}

// Its last checkpoint and what it has reported are its result: neither a failure nor an
// interruption. A trainer that the agent cannot end gracefully is killed after the same grace.
Next on(const Training&, const RuledOut& ruled_out, Context& c) {
  if (!c.facts.progress.ledger_known) return std::nullopt;  // where the reason is kept
  c.facts.progress.ledger.stopped_early = ruled_out.why;
  return stop_trainer(c, ReleaseGoal::Finish, InterruptionAction::Stop,
                      c.now + c.policy.stop_grace);
}

// It may still be able to save. Its end is a failure like another, but the next one is the last.
Next on(const Training&, const TrainerHung&, Context& c) {
  if (++c.facts.progress.ledger.hangs_without_progress >= c.policy.hangs)
    return give_up(c, Surrender::NoProgress);
  Stage stage =
      stop_trainer(c, ReleaseGoal::Survey, InterruptionAction::Stop, c.now + c.policy.stop_grace);
  if (auto* stopping = std::get_if<Stopping>(&stage)) stopping->restarts = true;
  return stage;
}

Next on(const Training&, const NoticeSeen& notice, Context& c) {
  remember_notice(c, notice);
  return stop_trainer(c, ReleaseGoal::Release, notice.action, notice.deadline);
}

Next on(const Training&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return stop_trainer(c, ReleaseGoal::Exit, InterruptionAction::Stop, stop.deadline);
}

Next on(const Training& training, const Woke&, Context& c) {
  Training stage = training;
  if (c.now >= stage.next_ledger) {
    write_ledger(stage, c);
    if (const auto why = overspent(c)) return give_up(c, *why);
    ask_fleet_again(stage, c);
    // It hangs; its end then counts as any other failure.
    const bool silent = c.facts.progress.ledger.speaks &&
                        c.now - c.facts.trainer.reported_at >= c.policy.silence_limit;
    if (silent) c.issue(KillTrainer{}, c.policy.look);
  }
  if (c.now >= stage.next_tidy && !stage.tidying) {
    stage.tidying = true;
    stage.next_tidy = kNever;
    c.ask(SurveyStorage{c.facts.move.lineage}, c.policy.ec2_call);
  }
  plan_wake(stage, c);
  return stage;
}

Next on(const Training& training, const HomeKept& kept, Context& c) {
  remember_kept(c, kept);
  if (kept.outcome == HomeKept::Outcome::Lost) return lose_home(c);
  if (!c.facts.home.changed || kept.outcome != HomeKept::Outcome::Committed) return std::nullopt;
  Training stage = training;
  write_ledger(stage, c);
  plan_wake(stage, c);
  return stage;
}

Next on(const Training& training, const StorageSurveyed& seen, Context& c) {
  if (in_bucket(c)) return watch_home(training, seen.survey, c);
  Training stage = training;
  if (learn_line(seen.survey, c) && c.policy.fence) {
    c.ask(SurveyStorage{c.facts.move.lineage}, c.policy.ec2_call);
    return stage;
  }
  const Survey all = as_known(seen.survey, c);
  const Survey ours = of_line(all, c.facts.move.lineage, c.facts.holding.volume);
  // Another instance has taken the volume from this one, which was stopped and works again.
  c.facts.fence.epoch = ours.epoch;
  const bool ours_no_more = c.policy.fence && ours.epoch.holder != c.facts.identity.instance;
  const bool learned = std::exchange(stage.learns, !c.facts.move.lineage);
  if (ours_no_more || learned) return tidying_later(stage, false, c);
  auto command = leftover(ours, c.facts.holding.volume, {}, snapshots_pay(c));
  if (!command) command = forget_left(ours);
  if (command) {
    c.ask(*command, c.policy.ec2_call);
    plan_wake(stage, c);
    return stage;
  }
  const auto generation = stage.snapshot_due ? snapshot_generation(ours, c) : std::nullopt;
  if (!generation) return tidying_later(stage, true, c);
  c.facts.move.snapshot_asked_ahead_at = c.now;
  c.ask(CreateSnapshot{c.facts.holding.volume, *generation, c.facts.move.lineage,
                       c.facts.move.moves, Taken::InUse},
        c.policy.ec2_call);
  stage.changed = false;
  stage.next_snapshot = c.now + c.policy.snapshot_every;
  plan_wake(stage, c);
  return stage;
}

Next on(const Training& training, const SnapshotStarted&, Context& c) {
  c.facts.move.snapshot_asked_ahead_at = kNever;
  return tidying_later(training, true, c);
}

Next on(const Training& training, const CallAccepted&, Context& c) {
  c.ask(SurveyStorage{c.facts.move.lineage}, c.policy.ec2_call);
  plan_wake(training, c);
  return training;
}

// The epoch that forget_left() asked for is written. The release that follows, perhaps before the
// next look, is the epoch after it.
Next on(const Training& training, const EpochWritten&, Context& c) {
  ++c.facts.fence.epoch.number;
  c.facts.fence.epoch.left = {};
  return on(training, CallAccepted{}, c);
}

void learn_others(Context& c, const LedgerRead& read) {
  Spent& known = c.facts.progress.others;
  known = {std::max(known.seconds, read.others.seconds),
           std::max(known.dollars, read.others.dollars)};
}

void learn_ledger(Context& c, const LedgerRead& read) {
  learn_others(c, read);
  if (c.facts.progress.ledger_known) return;
  const std::int64_t newest =
      std::max(c.facts.progress.ledger.newest_step, read.ledger.newest_step);
  c.facts.progress.ledger = read.ledger;
  if (newest > read.ledger.newest_step) reset_failures(c);
  c.facts.progress.ledger.newest_step = newest;
  if (c.facts.trainer.step >= 0) c.facts.progress.ledger.reached = c.facts.trainer.step;
  c.facts.progress.ledger_known = true;
}

Next on(const Training&, const FleetRead& read, Context& c) {
  remember_fleet(c, read);
  return std::nullopt;
}

Next on(const Training& training, const EffectFailed& failed, Context& c) {
  if (!training.tidying) return std::nullopt;  // of the ledger or the fleet: asked again with it
  Training stage = tidying_later(training, false, c);
  if (in_bucket(c)) {
    stage.next_tidy = c.now + c.policy.retry_last;
    plan_wake(stage, c);
    return stage;
  }
  // Deleted already, and still listed for a while: the rest need not wait for the next round.
  if (failed.failure == Failure::Missing && !on_share(c))
    stage.next_tidy = c.now + c.policy.consistency_bound;
  plan_wake(stage, c);
  return stage;
}

Stage stop_trainer(Context& c, ReleaseGoal then, InterruptionAction action, Time deadline) {
  const Time last = std::min(c.now + c.policy.stop_grace, last_kill(c, deadline));
  const Time kill_at = std::max(c.now, last);
  const Time usable_until = c.facts.exit.notice ? kill_at : kNever;
  c.issue(StopTrainer{action, deadline, usable_until}, c.policy.start_trainer);
  // Nothing is kept in a bucket before it is known.
  if (in_bucket(c) && !c.facts.progress.ledger_known) c.ask(ReadLedger{}, c.policy.ledger);
  c.wake_at(kill_at);
  return Stopping{then, kill_at};
}

// A ledger that was not read is not overwritten.
Next on(const Stopping&, const EffectFailed&, Context&) { return std::nullopt; }

Next on(const Stopping&, const TrainerProgressed& progress, Context& c) {
  c.facts.trainer.step = c.facts.progress.ledger.reached = progress.step;
  return std::nullopt;
}

Next on(const Stopping&, const CheckpointMade& made, Context& c) {
  c.facts.progress.checkpoint_step = made.step;
  c.facts.progress.counts_writes = made.write;
  c.facts.home.changed = true;
  learn_stall(c.facts.progress.ledger, made.stall);
  if (made.step > c.facts.progress.ledger.newest_step) count_progress(made.step, c);
  return std::nullopt;
}

// It may have taken longer than the one before.
Next on(const Stopping& stage, const HomeKept& kept, Context& c) {
  remember_kept(c, kept);
  if (!c.facts.exit.notice || stage.kills > 0) return std::nullopt;
  Stopping next = stage;
  next.kill_at = std::min(stage.kill_at, last_kill(c, c.facts.exit.notice->deadline));
  c.wake_at(std::max(c.now, next.kill_at));
  return next;
}

Next on(const Stopping& stage, const TrainerEnded& ended, Context& c) {
  const bool stays = stage.restarts && !c.facts.exit.notice && !c.facts.exit.leave;
  if (stays && !ended.success) return trainer_ended(c, TrainerEnded{});
  count_trainer_end(c, ended, stage.then == ReleaseGoal::Release);
  // A trainer that reports no checkpoints may have made its last one now.
  c.facts.home.changed = c.facts.home.changed || ended.stopped_as_asked;
  if (ended.success) c.facts.progress.ledger.stopped_early = {};  // it came to its end after all
  if (ended.success || stage.then == ReleaseGoal::Finish) c.facts.exit.done = true;
  // It ended because we asked: this start is no failure of the job.
  std::uint32_t& starts = c.facts.progress.ledger.starts_without_progress;
  if (!ended.success && ended.stopped_as_asked && starts > 0) --starts;
  return release_storage(c, ended.success ? ReleaseGoal::Finish : stage.then);
}

// A first notice while stopping for another reason, or a nearer deadline.
Next on(const Stopping& stage, const NoticeSeen& notice, Context& c) {
  const bool trains_on = c.facts.exit.notice.has_value();
  remember_notice(c, notice);
  Stopping next = stage;
  if (!job_is_over(next.then)) next.then = ReleaseGoal::Release;
  next.kill_at = std::max(c.now, std::min(stage.kill_at, last_kill(c, notice.deadline)));
  if (!trains_on || next.kill_at < stage.kill_at) {
    const Time usable_until = trains_on ? next.kill_at : kNever;
    c.issue(StopTrainer{notice.action, notice.deadline, usable_until, true},
            c.policy.start_trainer);
  }
  c.wake_at(next.kill_at);
  return next;
}

// A stop whose time has come waits for nothing any more. A later one changes nothing: what
// was begun has its own time, of a notice for example.
Next on(const Stopping& stage, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  abandon_local_work(c);
  if (stage.kills > 0 || stop.deadline > c.now) return std::nullopt;
  Stopping next = stage;
  next.kill_at = c.now;
  c.wake_at(c.now);
  return next;
}

// SIGKILL does not end it: it is stuck in the kernel. If the job is given up, the fleet is ended
// anyway; what was ruled out is not done as long as something may write to the volume.
Next on(const Stopping& stage, const Woke&, Context& c) {
  const bool gives_up = stage.then == ReleaseGoal::GiveUp;
  if (stage.kills >= c.policy.stuck_tries && gives_up) return settle(c, stage.then);
  if (on_share(c) && stage.kills >= c.policy.share_kills) {
    count_trainer_end(c, {}, false);
    if (stage.then == ReleaseGoal::Finish) c.facts.exit.done = true;
    return release_storage(c, stage.then);
  }
  c.issue(KillTrainer{}, c.policy.look);
  c.wake_in(c.policy.kill_again);
  Stopping next = stage;
  ++next.kills;
  return next;
}

}  // namespace spotter::decide
