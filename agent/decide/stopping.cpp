// Ending the trainer: it is asked to stop, and killed while there is still time to release all.
#include <algorithm>

#include "agent/decide/pace.hpp"
#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

// What the storage's release needs. Where checkpoints come with their stall, libspotter writes
// them: such a trainer has ended only when its last one is durable, and the unmount finds little to
// write.
Duration release_needs(const Context& c) {
  const bool durable = c.facts.progress.ledger.stall > 0 && !on_share(c);
  return durable ? c.policy.release_durable : c.policy.release_reserve;
}

Time last_kill(const Context& c, Time deadline) {
  const Duration left = deadline - c.now;
  return deadline - std::max(std::min<Duration>(release_needs(c), left / 3), upload_needs(c));
}

}  // namespace

Stage stop_trainer(Context& c, After then, InterruptionAction action, Time deadline) {
  const Time last = std::min(c.now + c.policy.stop_grace, last_kill(c, deadline));
  const Time kill_at = std::max(c.now, last);
  const Time usable_until = c.facts.exit.notice ? kill_at : kNever;
  c.issue(StopTrainer{action, deadline, usable_until}, c.policy.start_trainer);
  // Nothing is kept in a bucket before it is known.
  if (in_bucket(c) && !c.facts.progress.ledger_known) c.ask(ReadLedger{}, c.policy.ledger);
  c.wake_at(kill_at);
  return Stopping{then, kill_at};
}

Next on(const Stopping&, const LedgerRead& read, Context& c) {
  learn_ledger(c, read);
  return std::nullopt;
}

// What was not read is not overwritten.
Next on(const Stopping&, const EffectFailed&, Context&) { return std::nullopt; }

Next on(const Stopping&, const TrainerProgressed& progress, Context& c) {
  c.facts.trainer.step = c.facts.progress.ledger.reached = progress.step;
  return std::nullopt;
}

Next on(const Stopping&, const CheckpointMade& made, Context& c) {
  c.facts.progress.checkpoint_step = made.step;
  c.facts.home.changed = true;
  learn_stall(c.facts.progress.ledger, made.stall);
  c.facts.progress.ledger.newest_step = std::max(c.facts.progress.ledger.newest_step, made.step);
  reset_failures(c);
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
  count_trainer_end(c, ended, stage.then == After::Release);
  // One that reports no checkpoints may have made its last one now.
  c.facts.home.changed = c.facts.home.changed || ended.stopped_as_asked;
  if (ended.success) c.facts.progress.ledger.stopped_early = {};  // it came to its end after all
  if (ended.success || stage.then == After::Finish) c.facts.exit.done = true;
  // It ended because we asked: this start is no failure of the job.
  std::uint32_t& starts = c.facts.progress.ledger.starts_without_progress;
  if (!ended.success && ended.stopped_as_asked && starts > 0) --starts;
  return release_storage(c, ended.success ? After::Finish : stage.then);
}

// A first notice while stopping for another reason, or a nearer deadline.
Next on(const Stopping& stage, const NoticeSeen& notice, Context& c) {
  const bool trains_on = c.facts.exit.notice.has_value();
  remember_notice(c, notice);
  Stopping next = stage;
  if (!job_is_over(next.then)) next.then = After::Release;
  next.kill_at = std::max(c.now, std::min(stage.kill_at, last_kill(c, notice.deadline)));
  if (!trains_on || next.kill_at < stage.kill_at) {
    const Time usable_until = trains_on ? next.kill_at : kNever;
    c.issue(StopTrainer{notice.action, notice.deadline, usable_until, true},
            c.policy.start_trainer);
  }
  c.wake_at(next.kill_at);
  return next;
}

// SIGKILL does not end it: it is stuck in the kernel. If the job is given up, the fleet is ended
// anyway; what was ruled out is not done as long as something may write to the volume.
Next on(const Stopping& stage, const Woke&, Context& c) {
  const bool gives_up = stage.then == After::GiveUp;
  if (stage.kills >= c.policy.stuck_tries && gives_up) return settle(c, stage.then);
  if (on_share(c) && stage.kills >= c.policy.share_kills) {
    count_trainer_end(c, {}, false);
    if (stage.then == After::Finish) c.facts.exit.done = true;
    return release_storage(c, stage.then);
  }
  c.issue(KillTrainer{}, c.policy.look);
  c.wake_in(c.policy.kill_again);
  return Stopping{stage.then, stage.kill_at, stage.kills + 1};
}

}  // namespace spotter::decide
