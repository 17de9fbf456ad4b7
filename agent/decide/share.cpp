// Both kinds of storage: making it ready here, and releasing it. A volume is attached from wherever
// it is (storage.cpp, plan.cpp, migrate.cpp) and released for the next instance (release.cpp). A
// share is mounted, or is there already. Its server may stop answering at any time; then this
// machine goes on without it, and reports that.
#include <algorithm>

#include "agent/decide/pace.hpp"
#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Stage prepare(Context& c) {
  if (!on_share(c) || in_bucket(c)) return survey(c);
  c.ask(PrepareShare{}, c.policy.prepare_share);
  return Preparing{};
}

Stage release(Context& c, ReleaseGoal then) {
  if (!on_share(c)) return unmount(c, then);
  c.ask(ReleaseShare{}, c.policy.release_share);
  return Releasing{then};
}

// Reading or writing the ledger blocks while the share's server is dead. To a bucket all that is
// not there yet goes with it.
Duration ledger_limit(const Context& c) {
  const Time until = leaves_by(c);
  if (in_bucket(c) && until != kNever) {
    const Duration left = until - c.now;
    return std::max<Duration>(left - std::min<Duration>(c.policy.keep_reserve, left / 4),
                              Duration(1));
  }
  if (in_bucket(c)) return c.policy.keep_home;
  const bool leaving_share = on_share(c) && (c.facts.exit.notice || c.facts.exit.leave);
  return leaving_share ? c.policy.ledger_while_leaving : c.policy.ledger;
}

// The result of a trainer that ended before is not here any more when the copy was cleared.
Next on(const Preparing&, const Mounted& made, Context& c) {
  c.facts.holding.mounted = true;
  if (made.cleared) c.facts.trainer.ended_success = false;
  c.facts.home.newer = !made.cleared;
  c.facts.home.brought = true;
  if (Next end = leaving(c)) return end;
  return c.policy.fills ? fill(c) : read_ledger(c);
}

// A mount that was abandoned may have happened: releasing it settles that. A mount that cannot be
// used is not left behind.
Next on(const Preparing&, const EffectFailed& failed, Context& c) {
  const bool abandoned = failed.failure == Failure::Abandoned;
  const bool silent =
      failed.failure == Failure::Unavailable || failed.failure == Failure::ShareSilent;
  c.facts.holding.mounted = c.facts.holding.mounted || abandoned || failed.unsettled;
  const bool may_be_cleared = in_bucket(c) && (abandoned || failed.unsettled);
  if (may_be_cleared) c.facts.trainer.ended_success = false;
  if (!abandoned && !silent) {
    c.facts.trainer.ended_success = false;  // what it wrote need not outlive the mount
    c.issue(ReleaseShare{}, c.policy.release_share);
  }
  if (Next end = leaving(c)) return end;
  if (abandoned || (silent && in_bucket(c))) return retry_later(c, failed);
  return block(c, silent ? Block::ShareSilent : Block::ShareUnusable, failed.detail);
}

Next on(const Preparing&, const Woke&, Context& c) {
  end_bringing(c);
  return std::nullopt;
}

// The bucket may take up to this deadline what it did not take by a nearer one, or without one.
Next on(const Releasing& stage, const NoticeSeen& notice, Context& c) {
  const Time before = leaves_by(c);
  remember_notice(c, notice);
  const bool later = before == kNever || leaves_by(c) > before;
  const bool writes = in_bucket(c) && c.facts.fence.ours != 0 && c.facts.progress.ledger_known;
  return later && writes ? Next(release_storage(c, stage.then)) : std::nullopt;
}

Next on(const Releasing& stage, const Unmounted&, Context& c) {
  c.facts.holding.mounted = c.facts.home.brought = c.facts.trainer.ended_success = false;
  return next_release_step(c, stage.then);
}

// The next instance can use the share whether it is mounted here or not.
Next on(const Releasing& stage, const EffectFailed&, Context& c) {
  return on(stage, Unmounted{}, c);
}

namespace {

// A home in a bucket: nothing is attached, moved or mounted. The job's *head* there, one object,
// has the epoch (survey.hpp) and names what is committed; each write of it is conditional on the
// one before. So a session commits only while its own epoch is the newest one, whatever any clock
// says, and one that was paused and wakes up finds out at its next write.
//
//   look ─▶ take the epoch ─▶ bring the home here ─▶ train, commit ... ─▶ release it
//
// A write whose answer is lost may be carried out later. In doubt a session looks, and writes the
// next epoch, after which no earlier write is taken.

bool is_ours(const Facts::Fence& fence) {
  return fence.ours != 0 && fence.epoch.number == fence.ours &&
         fence.epoch.state == Epoch::State::Using && fence.epoch.holder == fence.self;
}

}  // namespace

WriteLedger ledger_to_write(Context& c) {
  return {c.facts.progress.ledger, in_bucket(c) ? c.facts.fence.ours : 0};
}

// An upload that is under way ends first, if there is time for both. A session that is only asked
// to leave has the time that it takes.
Duration upload_needs(const Context& c) {
  const Facts::Home& home = c.facts.home;
  if (!in_bucket(c) || !c.facts.exit.notice || home.upload == Duration(0)) return Duration(0);
  const Duration alone = next_upload(home.upload) + 2 * c.policy.keep_reserve;
  if (home.keeping_since == kNever) return alone;
  const Duration both =
      alone + std::max<Duration>(home.upload - (c.now - home.keeping_since), Duration(0));
  const Duration left = c.facts.exit.notice->deadline - c.now;
  return both + c.policy.release_reserve <= left ? both : alone;
}

// A write that began before anybody knew of the deadline has an hour. It ends when the epoch has to
// be released; or sooner, where a newer checkpoint waits for it that can still make it.
void limit_keeping(Context& c) {
  const Time until = leaves_by(c);
  if (!in_bucket(c) || until == kNever || !c.state.awaited) return;
  const Facts::Home& home = c.facts.home;
  const Duration left = std::max<Duration>(until - c.now, Duration(0));
  const Time end = until - std::min<Duration>(c.policy.keep_reserve, left / 4);
  const Time last = end - next_upload(home.upload);
  const bool newer = home.keeping_since != kNever && home.changed;
  // Nothing is known of the way. Up to a third of what is left it is likelier that there is no time
  // for both than that there is none for the newer one alone.
  const bool has_only_begun =
      newer && home.upload == Duration(0) && c.now - home.keeping_since <= left / 3;
  if (has_only_begun) return c.wake_at(c.now);
  if (!newer || home.upload == Duration(0) || last < c.now) return c.wake_at(end);
  const bool both = home.keeping_since + home.upload <= last;
  const Time overdue = home.keeping_since + 2 * home.upload + 2 * c.policy.keep_reserve;
  c.wake_at(both ? std::clamp(overdue, c.now, last) : c.now);
}

void hurry_keeping(Context& c) {
  const Stage& stage = c.state.stage;
  const bool waits = std::holds_alternative<CountingAttempt>(stage) ||
                     std::holds_alternative<Securing>(stage) ||
                     std::holds_alternative<ClosingLedger>(stage);
  if (waits) limit_keeping(c);
}

// The time is over that limit_keeping() gave to what is under way.
void end_keeping(Context& c) {
  if (leaves_by(c) == kNever || !c.state.awaited) return;  // the notice was withdrawn
  Facts::Home& home = c.facts.home;
  const bool before = home.keeping_since != kNever;
  c.issue(Abandon{before ? home.keeping : c.state.awaited}, c.policy.look);
  if (!before) return;
  home.keeping_since = kNever;
  home.keeping = {};
  limit_keeping(c);
}

// A working copy that may be newer is brought up in a moment. A notice that comes meanwhile leaves
// a part of the time for that, and the rest to send it.
bool brings_newer(const Context& c) {
  const Stage& stage = c.state.stage;
  const bool brings =
      std::holds_alternative<Preparing>(stage) || std::holds_alternative<ReadingLedger>(stage);
  return brings && in_bucket(c) && c.facts.home.newer;
}

void limit_bringing(Context& c) {
  const Time until = leaves_by(c);
  if (until != kNever) c.wake_at(c.now + std::max<Duration>(until - c.now, Duration(0)) / 4);
}

void end_bringing(Context& c) {
  if (leaves_by(c) == kNever || !c.state.awaited) return;  // the notice was withdrawn
  c.issue(Abandon{c.state.awaited}, c.policy.look);
}

// Nothing is sent that was not brought up, and nothing before its ledger was read. Neither step is
// begun again by its own failure.
std::optional<Stage> bring_newer(Context& c, ReleaseGoal then) {
  const Facts& facts = c.facts;
  const bool leaves = then == ReleaseGoal::Release || then == ReleaseGoal::Exit;
  const bool newer = in_bucket(c) && facts.home.newer && facts.fence.ours != 0;
  if (!leaves || !newer || facts.progress.ledger_known) return std::nullopt;
  if (!facts.home.brought && !std::holds_alternative<Preparing>(c.state.stage))
    return enter_home(c);
  if (!facts.home.brought || std::holds_alternative<ReadingLedger>(c.state.stage))
    return std::nullopt;
  limit_bringing(c);
  return read_ledger(c);
}

// Memory, or a process, may be there a moment later.
bool reads_again(const Context& c, const EffectFailed& failed) {
  const Time until = leaves_by(c);
  if (!brings_newer(c) || failed.failure != Failure::Unavailable || until == kNever) return false;
  return until - c.now > 2 * c.policy.keep_reserve + c.policy.release_again;
}

// One write at a time: what comes meanwhile goes with the next one.
void keep_home(Context& c) {
  Facts::Home& home = c.facts.home;
  const bool busy = home.keeping_since != kNever && c.now - home.keeping_since < c.policy.keep_home;
  if (busy || c.facts.fence.ours == 0) return;
  home.keeping_since = c.now;
  home.changed = false;
  home.keeping = c.issue(ledger_to_write(c), c.policy.keep_home);
}

void remember_kept(Context& c, const HomeKept& kept) {
  Facts::Home& home = c.facts.home;
  home.keeping_since = kNever;
  home.keeping = {};
  c.facts.progress.ledger.s3_writes += kept.s3_writes;
  c.facts.progress.ledger.s3_reads += kept.s3_reads;
  if (kept.outcome != HomeKept::Outcome::Committed) return;
  if (kept.newest > home.kept_step && kept.bytes > 0) {  // else it was there
    home.upload = kept.took;
    home.upload_bytes = kept.bytes;
  }
  home.kept_step = kept.newest;
}

Time leaves_by(const Context& c) {
  const auto& exit = c.facts.exit;
  const Time notice = exit.notice ? exit.notice->deadline : kNever;
  return exit.leave ? std::min(notice, exit.leave_by) : notice;
}

// Terminated is final, and stopped can use nothing; where EC2 cannot say, whoever looked says Gone
// when the holder has not written for a whole lease.
Stage take_home(const Survey& survey, Context& c) {
  Facts::Fence& fence = c.facts.fence;
  const std::uint32_t known = fence.epoch.number;
  fence.epoch = survey.epoch;
  fence.self = survey.epoch_self;
  const Epoch& epoch = fence.epoch;
  if (epoch.number == 0 && known != 0) return block(c, Block::HomeGone, {});
  if (is_ours(fence)) return enter_home(c);
  fence.ours = 0;
  if (epoch.state == Epoch::State::Done) {
    c.facts.exit.done = true;
    return c.facts.holding.mounted ? release(c, ReleaseGoal::Finish)
                                   : settle(c, ReleaseGoal::Finish);
  }
  c.facts.exit.done = false;  // what was here may be older than what is there
  const bool still = epoch.holder == fence.self && epoch.state == Epoch::State::Using;
  if (!still) {  // of no history, if another was here
    c.facts.trainer.ended_success = false;
    c.facts.progress.ledger_known = false;
  }
  const bool uses = epoch.number != 0 && epoch.state != Epoch::State::Released &&
                    epoch.holder != fence.self && survey.epoch_holder != HolderState::Gone &&
                    survey.epoch_holder != HolderState::Stopped;
  const bool held = uses || survey.later_claim;
  if (held && c.facts.holding.mounted) return release(c, ReleaseGoal::Survey);  // it was ours
  if (held) return wait(c, Wait::HomeHeld, c.policy.poll_held);
  c.facts.home.newer = still;
  c.facts.home.brought = false;
  Epoch next = epoch;
  ++next.number;
  next.state = Epoch::State::Using;
  next.holder = fence.self;
  c.ask(WriteEpoch{next}, c.policy.epoch_call);
  return WritingEpoch{next};
}

// A result that is here and still ours is not brought again: the caller says so by a known ledger.
Stage enter_home(Context& c) {
  if (c.facts.progress.ledger.done && c.facts.holding.mounted && c.facts.progress.ledger_known) {
    c.facts.exit.done = true;
    return release_storage(c, ReleaseGoal::Finish);
  }
  c.ask(PrepareShare{}, c.policy.bring_home);
  limit_bringing(c);
  return Preparing{};
}

// The trainer of an earlier session runs on: is the home still this machine's?
Next watch_home(const Training& training, const Survey& survey, Context& c) {
  Facts::Fence& fence = c.facts.fence;
  Training stage = training;
  stage.tidying = false;
  stage.next_tidy = kNever;
  fence.self = survey.epoch_self;
  fence.epoch = survey.epoch;
  fence.ours = survey.epoch.number;
  if (!is_ours(fence)) return lose_home(c);
  stage.next_ledger = c.now;  // what was made meanwhile is not in the bucket yet
  c.wake_at(c.now);
  return stage;
}

Stage lose_home(Context& c) {
  c.facts.fence.ours = 0;
  c.facts.exit.done = c.facts.trainer.ended_success = false;
  c.facts.progress.checkpoint_step = c.facts.home.kept_step;  // the rest is of no history
  if (c.facts.trainer.running)
    return stop_trainer(c, ReleaseGoal::Survey, InterruptionAction::Stop, c.now);
  return next_release_step(c, ReleaseGoal::Survey);
}

// Time mends no fault of the folder here, such as too many files. A result is not durable yet: the
// ledger here says that it is one, should the home be ours still.
Stage home_failed(Context& c, const EffectFailed& failed) {
  c.facts.exit.done = false;
  if (failed.failure == Failure::MountFailed) {
    if (Next end = leaving(c)) return *end;
    return block(c, Block::ShareUnusable, failed.detail);
  }
  if (failed.failure != Failure::Conflict) {
    EffectFailed settled = failed;
    settled.unsettled = false;  // the next look settles it, and no bound
    return call_failed(c, settled);
  }
  return survey(c);
}

// The result and the log are in the bucket: only now the head says so.
Stage mark_home_done(Context& c) {
  Epoch next = c.facts.fence.epoch;
  ++next.number;
  next.state = Epoch::State::Done;
  c.facts.fence.ours = 0;
  c.ask(WriteEpoch{next}, c.policy.epoch_call);
  return MarkingDone{};
}

std::optional<Stage> release_home(Context& c, ReleaseGoal then) {
  return is_ours(c.facts.fence) ? write_released(c, then, 1) : std::nullopt;
}

}  // namespace spotter::decide
