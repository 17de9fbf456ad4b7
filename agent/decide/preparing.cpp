// The storage is mounted and its newest checkpoint verified. Before the trainer starts: is the job
// done, has it failed too often, is there money left? Then come the GPUs, the
// volumes of data, the code, and the trainer.
#include <algorithm>

#include "agent/decide/pace.hpp"
#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

Stage start_trainer(Context& c) {
  c.facts.trainer.advised_interval = checkpoint_every(c.facts.progress.ledger, c.policy);
  c.ask(StartTrainer{c.facts.trainer.advised_interval, is_replaced(c)}, c.policy.start_trainer);
  return StartingTrainer{};
}

// Are the GPUs there that the job needs? Asked before each start of the trainer: one may be missing
// from the beginning, or have fallen off the bus while a trainer ran. A machine without them is
// given back, with nothing of the job on it, and its fleet launches another.

// It counts as an attempt: a fleet that only has such machines would replace them for ever. Once,
// however often this one tries to leave.
Stage leave_unfit_machine(Context& c, Surrender at_last) {
  auto& attempts = c.facts.progress.ledger.attempts_without_progress;
  if (!std::exchange(c.facts.exit.unfit, true)) ++attempts;
  c.facts.exit.hinders_gang = false;
  if (attempts >= c.policy.attempts_without_progress) return give_up(c, at_last);
  return release_storage(c, ReleaseGoal::GiveBack);
}

// A start is counted before it begins, so that it counts also when the instance ends in it.
Stage count_attempt(Context& c) {
  if (const auto why = overspent(c)) return give_up(c, *why);
  const std::uint32_t most = c.policy.attempts_without_progress;
  Ledger& ledger = c.facts.progress.ledger;
  if (ledger.attempts_without_progress >= most) return give_up(c, Surrender::NoProgress);
  if (ledger.starts_without_progress >= most * c.policy.starts_per_attempt)
    return give_up(c, Surrender::StartsInVain);
  ++ledger.starts_without_progress;
  ledger.running = true;
  c.ask(ledger_to_write(c), in_bucket(c) ? ledger_limit(c) : c.policy.ledger);
  return CountingAttempt{};
}

}  // namespace

std::optional<Surrender> overspent(const Context& c) {
  const Ledger& ledger = c.facts.progress.ledger;
  const Spent& others = c.facts.progress.others;
  if (c.policy.hours_limit > 0 && ledger.seconds + others.seconds >= c.policy.hours_limit * 3600)
    return Surrender::HoursSpent;
  if (c.policy.dollars_limit > 0 && ledger.dollars + others.dollars >= c.policy.dollars_limit)
    return Surrender::DollarsSpent;
  return std::nullopt;
}

Stage prepare_training(Context& c) {
  if (c.facts.progress.ledger.done || c.facts.trainer.ended_success) {
    c.facts.exit.done = true;
    return release_storage(c, ReleaseGoal::Finish);
  }
  if (hinders_gang(c)) return leave_gang(c);
  if (c.policy.gpus == 0) return prepare_data(c);
  c.ask(AwaitGpus{}, c.policy.await_gpus);
  return AwaitingGpus{};
}

Stage fetch_code(Context& c) {
  if (!c.policy.has_code) return count_attempt(c);
  c.ask(FetchCode{}, c.policy.fetch_code);
  return FetchingCode{};
}

Next on(const CountingAttempt&, const LedgerWritten&, Context& c) {
  if (Next end = leaving(c)) return end;
  return start_trainer(c);
}

// A volume that takes no ledger (full, read-only) takes no checkpoint either.
Next on(const CountingAttempt&, const EffectFailed& failed, Context& c) {
  --c.facts.progress.ledger.starts_without_progress;
  c.facts.progress.ledger.running = false;
  if (Next end = leaving(c)) return end;
  if (in_bucket(c)) return home_failed(c, failed);
  return block(c, Block::MountFailed, failed.detail);
}

Next on(const FetchingCode&, const CodeFetched&, Context& c) {
  if (Next end = leaving(c)) return end;
  return count_attempt(c);
}

Next on(const FetchingCode&, const EffectFailed& failed, Context& c) {
  if (Next end = leaving(c)) return end;
  const bool missing = failed.failure == Failure::CodeMissing;
  return block(c, missing ? Block::CodeMissing : Block::CodeUnreachable, failed.detail);
}

Next on(const StartingTrainer&, const TrainerStarted&, Context& c) {
  Facts::Trainer& trainer = c.facts.trainer;
  trainer = {.running = true, .started_at = c.now, .advised_interval = trainer.advised_interval};
  c.facts.exit.hinders_gang = false;  // said of the one before
  return train(c);
}

// No trainer started: that is no attempt. When it is unknown whether one runs, look.
Next on(const StartingTrainer&, const EffectFailed& failed, Context& c) {
  if (failed.unsettled) {
    c.ask(LookAtHost{}, c.policy.look);
    return LookingAround{};
  }
  --c.facts.progress.ledger.starts_without_progress;
  c.facts.progress.ledger.running = false;
  c.issue(ledger_to_write(c), c.policy.ledger);
  if (Next end = leaving(c)) return end;
  if (failed.failure == Failure::ProcessesLeft) return outlast(c, failed);
  if (failed.failure == Failure::Unavailable) return retry_later(c, failed);
  return block(c, Block::TrainerUnstartable, failed.detail);
}

bool is_replaced(const Context& c) {
  const auto& identity = c.facts.identity;
  return !c.policy.foreground && identity.instance && identity.fleet_known &&
         identity.fleet.kind != FleetKind::None && !identity.once;
}

bool hinders_gang(const Context& c) { return c.facts.exit.hinders_gang && is_replaced(c); }

// Processes of a trainer: they may write where the next one would, or keep the storage busy. The
// fault is this machine's: it must not end the job.
Stage outlast(Context& c, const EffectFailed& failed) {
  Time& since = c.facts.trouble.left_since;
  if (since == kNever) since = c.now;
  if (c.now - since < c.policy.left_limit) return wait(c, Wait::Retry, c.policy.left_retry);
  if (is_replaced(c) || c.policy.foreground) return leave_unfit_machine(c, Surrender::NoProgress);
  const bool at_start = failed.failure == Failure::ProcessesLeft;
  return block(c, at_start ? Block::TrainerUnstartable : Block::MountFailed, failed.detail);
}

// The gang's record counts the machines that it gives back.
Stage leave_gang(Context& c) {
  c.facts.exit.unfit = true;
  c.facts.exit.hinders_gang = true;
  return release_storage(c, ReleaseGoal::GiveBack);
}

Stage give_back(Context& c, std::uint32_t failures) {
  const Time old_enough(c.policy.replace_after);  // the clock began as the machine booted
  if (c.facts.exit.hinders_gang && c.now < old_enough)
    c.wake_at(old_enough);
  else
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
  if (absent && (is_replaced(c) || c.policy.foreground))
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

Next on(const GivingBack& stage, const Woke&, Context& c) {
  give_back(c, stage.failures);
  return stage;
}

// The volumes of data: read-only, one of each snapshot in this zone. They hold none of the job's
// state, so none is fenced or moved: if one is missing or other instances use it, another is made
// of the same snapshot. The volumes made are removed when the job is over; the snapshots are the
// user's.

Stage prepare_data(Context& c) {
  if (c.policy.data == 0) return fetch_code(c);
  c.facts.holding.data = true;
  c.ask(PrepareData{c.facts.identity.instance, c.facts.identity.zone}, c.policy.prepare_data);
  return PreparingData{};
}

// After a notice only until the deadline; the end of the instance does the rest.
Stage release_data(Context& c, ReleaseGoal then, std::uint32_t failures) {
  Duration limit = c.policy.release_data;
  if (c.facts.exit.notice) {
    const Duration left = c.facts.exit.notice->deadline - c.now;
    limit = std::clamp<Duration>(left, c.policy.release_again, limit);
  }
  c.ask(ReleaseData{c.facts.identity.instance, job_is_over(then)}, limit);
  return ReleasingData{then, failures};
}

// At the end of the job: the next change that removes a volume that no instance uses. A volume that
// is attached here though it was released is detached again: EC2 may show an attachment only after
// the release looked for one.
std::optional<Command> data_left_over(const Survey& survey, const Facts& facts) {
  for (const SeenVolume& volume : survey.data) {
    const bool forgotten = volume.holder && volume.holder == facts.identity.instance &&
                           !facts.holding.data && volume.attachment != AttachmentState::Detaching;
    if (forgotten) return DetachVolume{volume.id, volume.holder};
    const bool free = volume.state == VolumeState::Available || volume.state == VolumeState::Error;
    if (free && !volume.holder) return DeleteVolume{volume.id};
    if (held_by_stopped(volume)) return DetachVolume{volume.id, volume.holder};
  }
  return std::nullopt;
}

// The volumes that other instances use, to be waited for: an agent that sees `done` releases its
// own.
Detail data_in_use(const Survey& survey) {
  std::string words;
  for (const SeenVolume& volume : survey.data) {
    if (volume.state == VolumeState::Deleting) continue;
    words += (words.empty() ? "" : ", ") + volume.id.str();
    if (volume.holder) words += " (" + volume.holder.str() + ")";
  }
  return Detail(words);
}

Next on(const PreparingData&, const Mounted&, Context& c) {
  if (Next end = leaving(c)) return end;
  return fetch_code(c);
}

Next on(const PreparingData&, const EffectFailed& failed, Context& c) {
  if (Next end = leaving(c)) return end;
  if (failed.failure == Failure::Refused) return block(c, Block::NotPermitted, failed.detail);
  // It took all its time for an unknown reason: that counts as time in which a person was needed.
  if (failed.unsettled) c.facts.trouble.blocked += c.policy.prepare_data;
  const bool passing =
      failed.failure == Failure::Unavailable || failed.failure == Failure::Abandoned;
  if (passing && !failed.unsettled) return retry_later(c, failed);
  return block(c, Block::DataUnusable, failed.detail);
}

Next on(const ReleasingData& stage, const Unmounted&, Context& c) {
  c.facts.holding.data = false;
  return settle(c, stage.then);
}

// No instance waits for them. But what is left when the job is over goes on costing, and no agent
// removes it later. An instance that EC2 does not terminate after all still has them.
Next on(const ReleasingData& stage, const EffectFailed&, Context& c) {
  const bool last = stage.failures + 1 >= c.policy.release_data_tries;
  if (c.facts.exit.notice || !job_is_over(stage.then) || last) return settle(c, stage.then);
  c.wake_in(backoff(c.policy, stage.failures));
  return ReleasingData{stage.then, stage.failures + 1};
}

Next on(const ReleasingData& stage, const Woke&, Context& c) {
  return release_data(c, stage.then, stage.failures);
}

// `spotter prepare` (Policy::fills): the job's volume is brought up as for training, filled with
// what job.yaml names, marked, and released. No trainer starts, and no move begins or ends here. It
// waits for no person: where one is needed, it ends. `spotter fetch` sends files of it in the place
// of filling it, and of a share likewise.

Stage fill(Context& c) {
  c.ask(FillVolume{c.facts.holding.volume}, c.policy.fill);
  return Filling{};
}

// The reason why the volume cannot be filled now; nullopt: none.
std::optional<Detail> in_use(const Survey& survey, const SeenVolume& volume, const Context& c) {
  const bool ours = volume.holder == c.facts.identity.instance;
  if (volume.done && !c.policy.sends_result)
    return Detail(volume.id.str() + " has the tag spotter:done");
  if (volume.holder && !ours) return Detail(volume.holder.view());
  if (volume.zone != c.facts.identity.zone)
    return Detail(volume.id.str() + " in " + volume.zone.str());
  // A claim of ours would make the copy stale, and the instance that made it would begin again.
  // With a fence that instance has the epoch.
  const bool fenced = c.policy.fence && survey.epoch.number != 0;
  return ours || fenced ? std::nullopt : copy_of(survey, volume.id);
}

Next on(const Filling&, const VolumeFilled&, Context& c) {
  if (Next end = leaving(c)) return end;
  if (c.policy.sends_result) {
    c.facts.exit.filled = true;
    return release_storage(c, ReleaseGoal::Exit);
  }
  c.ask(MarkPrepared{c.facts.holding.volume}, c.policy.ec2_call);
  return MarkingPrepared{};
}

Next on(const MarkingPrepared&, const CallAccepted&, Context& c) {
  c.facts.exit.filled = true;
  return release_storage(c, ReleaseGoal::Exit);
}

}  // namespace spotter::decide
