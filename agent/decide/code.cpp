// The storage is mounted and its newest checkpoint verified. Before the trainer starts: is the job
// done, has it failed too often, is there money left? Then come the GPUs (gpus.cpp), the volumes of
// data (data.cpp), the code, and the trainer.
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

}  // namespace

std::optional<Surrender> overspent(const Context& c) {
  const Ledger& ledger = c.facts.progress.ledger;
  if (c.policy.hours_limit > 0 && ledger.seconds >= c.policy.hours_limit * 3600) {
    return Surrender::HoursSpent;
  }
  if (c.policy.dollars_limit > 0 && ledger.dollars >= c.policy.dollars_limit) {
    return Surrender::DollarsSpent;
  }
  return std::nullopt;
}

Stage prepare_training(Context& c) {
  if (c.facts.progress.ledger.done || c.facts.trainer.ended_success) {
    c.facts.exit.done = true;
    return release_storage(c, After::Finish);
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

Next on(const CountingAttempt&, const LedgerWritten&, Context& c) {
  if (Next end = leaving(c)) return end;
  return start_trainer(c);
}

Next on(const CountingAttempt&, const HomeKept& kept, Context& c) {
  remember_kept(c, kept);
  limit_keeping(c);
  return std::nullopt;
}

Next on(const CountingAttempt&, const Woke&, Context& c) {
  end_keeping(c);
  return std::nullopt;
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

}  // namespace spotter::decide
