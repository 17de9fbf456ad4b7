// Both kinds of storage: making it ready here, and releasing it. A volume is attached from wherever
// it is (storage.cpp, plan.cpp, migrate.cpp) and released for the next instance (release.cpp). A
// share is mounted, or is there already. Its server may stop answering at any time; then this
// machine goes on without it, and reports that.
#include <algorithm>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Stage prepare(Context& c) {
  if (!on_share(c) || in_bucket(c)) return survey(c);
  c.ask(PrepareShare{}, c.policy.prepare_share);
  return Preparing{};
}

Stage release(Context& c, After then) {
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
  return read_ledger(c);
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

// What the bucket did not take before, at a nearer deadline or without one, it may take up to this
// one.
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

}  // namespace spotter::decide
