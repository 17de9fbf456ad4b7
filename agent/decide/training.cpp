// The long stage. The trainer works; the agent watches, keeps the account, and tidies up after an
// earlier move as soon as a checkpoint of our own is durable.
#include <algorithm>

#include "agent/decide/pace.hpp"
#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

void plan_wake(const Training& stage, Context& c) {
  c.wake_at(std::min(stage.next_ledger, stage.next_tidy));
}

void pace(Context& c, Time asked) {
  c.facts.paced = checkpoint_every(c.facts.ledger, c.policy);
  c.tell(PaceTrainer{c.facts.paced, asked}, c.policy.start_trainer);
}

// Only when it matters: each word is a file written and read.
void keep_pace(Context& c) {
  const Duration now = checkpoint_every(c.facts.ledger, c.policy);
  const Duration differs = now > c.facts.paced ? now - c.facts.paced : c.facts.paced - now;
  const std::chrono::duration<double> bearable = c.facts.paced * c.policy.pace_change;
  if (differs > bearable) pace(c, kNever);
}

// What was not read must not be overwritten: read it first, and write the next time.
void write_account(Training& stage, Context& c) {
  stage.next_ledger = c.now + c.policy.ledger_every;
  if (c.facts.ledger_known) {
    account(c);
    keep_pace(c);
    c.tell(WriteLedger{c.facts.ledger}, c.policy.ledger);
  } else if (!c.state.awaited) {
    c.ask(ReadLedger{}, c.policy.ledger);
  }
}

bool images_pay(const Context& c) {
  return !on_share(c) && snapshots_pay(c.facts.ledger, c.facts.dollars_per_hour, c.policy);
}

// After a durable checkpoint, not too often, and never two rounds at once.
void image_soon(Training& stage, const Context& c) {
  if (!stage.changed || stage.tidying || c.now < stage.next_image || !images_pay(c)) return;
  stage.imaging = true;
  stage.next_tidy = c.now;
}

// The generation that the snapshot is of: one before the present one, which is not over yet. None:
// the volume is not seen to be in our hands, or one is under way already.
std::optional<std::uint32_t> imageable(const Survey& survey, const Context& c) {
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    if (snapshot.state == SnapshotState::Pending) return std::nullopt;
  }
  for (const SeenVolume& volume : survey.volumes) {
    const bool ours = volume.id == c.facts.volume && volume.holder == c.facts.instance;
    if (ours && volume.generation > 0) return volume.generation - 1;
  }
  return std::nullopt;
}

// A share is never moved: nothing of a move is left to tidy up.
Time next_round(const Context& c) { return on_share(c) ? kNever : c.now + c.policy.tidy_every; }

Training tidying_later(Training stage, bool clean, Context& c) {
  stage.tidying = stage.imaging = false;
  stage.tidied = stage.tidied || clean;
  stage.next_tidy = next_round(c);
  plan_wake(stage, c);
  return stage;
}

Time kill_time(const Context& c, Time deadline) {
  const Duration left = deadline - c.now;
  const Duration reserve = std::min<Duration>(c.policy.release_reserve, left / 3);
  return std::min(c.now + c.policy.stop_grace, deadline - reserve);
}

}  // namespace

Stage stop_trainer(Context& c, After then, InterruptionAction action, Time deadline) {
  const Time kill_at = std::max(c.now, kill_time(c, deadline));
  const Time usable_until = c.facts.notice ? kill_at : kNever;
  c.tell(StopTrainer{action, deadline, usable_until}, c.policy.start_trainer);
  c.wake_at(kill_at);
  return Stopping{then, kill_at};
}

Stage train(Context& c) {
  c.facts.blocked = {};
  c.facts.heard_at = c.now;
  if (c.facts.accounted == kNever) c.facts.accounted = c.now;
  if (c.facts.notice) {
    return stop_trainer(c, After::Release, c.facts.notice->action, c.facts.notice->deadline);
  }
  if (c.facts.leave) {
    return stop_trainer(c, After::Exit, InterruptionAction::Stop, c.now + c.policy.stop_grace);
  }
  Training stage;
  stage.next_image = c.now;
  stage.next_ledger = c.now + c.policy.ledger_every;
  stage.next_tidy = next_round(c);
  stage.tidied = on_share(c);
  plan_wake(stage, c);
  return stage;
}

// Told to end in time it loses nothing; any other end but success loses what was not written yet.
void trainer_gone(Context& c, const TrainerEnded& ended, bool announced) {
  Ledger& ledger = c.facts.ledger;
  c.facts.trainer_running = false;
  ledger.running = false;
  if (!ended.success && !ended.stopped_as_asked) ++ledger.losses;
  if (!ended.success && ended.stopped_as_asked && announced) ++ledger.releases;
}

void forget_failures(Context& c) {
  c.facts.ledger.attempts_without_progress = 0;
  c.facts.ledger.starts_without_progress = 0;
}

// A crash of the agent loses at most `ledger_every`.
void account(Context& c) {
  if (c.facts.accounted == kNever) return;
  const double spent = std::chrono::duration<double>(c.now - c.facts.accounted).count();
  c.facts.ledger.seconds += spent;
  c.facts.ledger.dollars += spent / 3600 * c.facts.dollars_per_hour;
  c.facts.accounted = c.now;
}

Stage give_up(Context& c, Surrender why) {
  c.facts.surrender = why;
  if (c.facts.trainer_running) {
    return stop_trainer(c, After::GiveUp, InterruptionAction::Stop, c.now + c.policy.stop_grace);
  }
  return let_go(c, After::GiveUp);
}

namespace {

// The first word ever is kept at once: an agent that takes over must know that silence is no habit.
Next heard(const Training& training, Context& c) {
  c.facts.heard_at = c.now;
  if (c.facts.ledger.speaks || !c.facts.ledger_known) return std::nullopt;
  c.facts.ledger.speaks = true;
  Training stage = training;
  write_account(stage, c);
  plan_wake(stage, c);
  return stage;
}

}  // namespace

Next on(const Training& training, const TrainerProgressed& progress, Context& c) {
  c.facts.step = c.facts.ledger.reached = progress.step;
  return heard(training, c);
}

Next on(const Training& training, const TrainerResumed& resumed, Context& c) {
  Ledger& ledger = c.facts.ledger;
  if (resumed.step < ledger.reached)
    ledger.repeated += static_cast<std::uint64_t>(ledger.reached - resumed.step);
  c.facts.resumed_step = c.facts.step = ledger.reached = resumed.step;
  return heard(training, c);
}

Next on(const Training& training, const CheckpointMade& made, Context& c) {
  Training stage = training;
  c.facts.heard_at = c.now;
  c.facts.checkpoint_step = made.step;
  c.facts.checkpoint_at = c.now;
  learn_stall(c.facts.ledger, made.stall);
  keep_pace(c);
  if (made.step > c.facts.ledger.newest_step) {
    const bool had_failed = c.facts.ledger.attempts_without_progress != 0 ||
                            c.facts.ledger.starts_without_progress != 0;
    c.facts.ledger.newest_step = made.step;
    forget_failures(c);
    c.facts.crashes = 0;
    if (had_failed) write_account(stage, c);
  }
  if (!stage.tidied && !stage.tidying && !stage.hurried) {
    stage.next_tidy = c.now;  // what an earlier move left is not needed any more
    stage.hurried = true;
  }
  stage.changed = true;
  image_soon(stage, c);
  plan_wake(stage, c);
  return stage;
}

// Mostly it comes to nothing: worth a checkpoint, never the end of training.
Next on(const Training& training, const RebalanceRecommended&, Context& c) {
  Training stage = training;
  const Time since = c.facts.checkpoint_at != kNever ? c.facts.checkpoint_at : c.facts.started_at;
  const Duration at_risk = since != kNever ? c.now - since : c.policy.checkpoint_most;
  stage.next_image = c.now;
  const bool pays = hint_pays(c.facts.ledger, at_risk, c.policy);
  if (pays) pace(c, c.now);
  if (!pays) image_soon(stage, c);  // else after the checkpoint that was asked for
  plan_wake(stage, c);
  return stage;
}

Next on(const Training&, const TrainerEnded& ended, Context& c) { return trainer_ended(c, ended); }

Next trainer_ended(Context& c, const TrainerEnded& ended) {
  trainer_gone(c, ended, false);
  if (ended.success) {
    c.facts.done = true;
    return let_go(c, After::Finish);
  }
  account(c);
  const bool settled =
      c.facts.started_at != kNever && c.now - c.facts.started_at >= c.policy.settled;
  if (settled) forget_failures(c);
  // Ended as somebody asked (an earlier agent, a person): no failure, and its start is counted.
  if (!ended.stopped_as_asked) ++c.facts.ledger.attempts_without_progress;
  if (c.facts.ledger.attempts_without_progress >= c.policy.attempts_without_progress) {
    return give_up(c, Surrender::NoProgress);
  }
  const std::uint32_t doublings = std::min<std::uint32_t>(c.facts.crashes++, 10);
  return wait(c, Wait::TrainerRestart,
              std::min(c.policy.restart_last, c.policy.restart_first * (1 << doublings)));
}

Next on(const Training&, const NoticeSeen& notice, Context& c) {
  remember_notice(c, notice);
  return stop_trainer(c, After::Release, notice.action, notice.deadline);
}

Next on(const Training&, const StopRequested& stop, Context& c) {
  remember_stop(c, stop);
  return stop_trainer(c, After::Exit, InterruptionAction::Stop, stop.deadline);
}

Next on(const Training& training, const Woke&, Context& c) {
  Training stage = training;
  if (c.now >= stage.next_ledger) {
    write_account(stage, c);
    if (const auto why = overspent(c)) return give_up(c, *why);
    // It hangs; its end then counts as any other failure.
    const bool silent = c.facts.ledger.speaks && c.now - c.facts.heard_at >= c.policy.silence_limit;
    if (silent) c.tell(KillTrainer{}, c.policy.look);
  }
  if (c.now >= stage.next_tidy && !stage.tidying) {
    stage.tidying = true;
    stage.next_tidy = kNever;
    c.ask(SurveyStorage{}, c.policy.ec2_call);
  }
  plan_wake(stage, c);
  return stage;
}

Next on(const Training& training, const StorageSurveyed& seen, Context& c) {
  Training stage = training;
  for (const SeenVolume& volume : seen.survey.volumes) {  // who adopted its trainer asks here first
    if (volume.id != c.facts.volume) continue;
    c.facts.lineage = line_of(volume);
    c.facts.moves = volume.moves;
  }
  const Survey ours = of_line(seen.survey, c.facts.lineage, c.facts.volume);
  if (const auto command = leftover(ours, {}, images_pay(c))) {
    c.ask(*command, c.policy.ec2_call);
    plan_wake(stage, c);
    return stage;
  }
  const auto generation = stage.imaging ? imageable(ours, c) : std::nullopt;
  if (!generation) return tidying_later(stage, true, c);
  c.facts.imaged_at = c.now;
  c.ask(CreateSnapshot{c.facts.volume, *generation, c.facts.lineage, c.facts.moves, true},
        c.policy.ec2_call);
  stage.changed = false;
  stage.next_image = c.now + c.policy.snapshot_every;
  plan_wake(stage, c);
  return stage;
}

Next on(const Training& training, const SnapshotStarted&, Context& c) {
  c.facts.imaged_at = kNever;
  return tidying_later(training, true, c);
}

Next on(const Training& training, const CallAccepted&, Context& c) {
  c.ask(SurveyStorage{}, c.policy.ec2_call);
  plan_wake(training, c);
  return training;
}

// The account of an earlier agent, which could not be read when this one took over.
Next on(const Training&, const LedgerRead& read, Context& c) {
  const std::int64_t newest = std::max(c.facts.ledger.newest_step, read.ledger.newest_step);
  c.facts.ledger = read.ledger;
  c.facts.ledger.newest_step = newest;
  if (c.facts.step >= 0) c.facts.ledger.reached = c.facts.step;
  c.facts.ledger_known = true;
  return std::nullopt;
}

Next on(const Training& training, const EffectFailed& failed, Context& c) {
  Training stage = tidying_later(training, false, c);
  // Gone already, and still listed for a while: the rest need not wait for the next round.
  if (failed.failure == Failure::Missing && !on_share(c))
    stage.next_tidy = c.now + c.policy.consistency_bound;
  plan_wake(stage, c);
  return stage;
}

}  // namespace spotter::decide
