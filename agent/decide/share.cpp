// The storage's two sides: to have it at hand, and to let go of it. A volume is brought here from
// wherever it is (storage.cpp, plan.cpp, migrate.cpp) and let go of for the next instance
// (release.cpp). A share needs none of that: it is mounted, or is there already. Its server may
// hang at any time; then this machine goes on without it, and says so.
#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Stage prepare(Context& c) {
  if (!on_share(c)) return survey(c);
  c.ask(PrepareShare{}, c.policy.prepare_share);
  return Preparing{};
}

Stage release(Context& c, After then) {
  if (!on_share(c)) return unmount(c, then);
  c.ask(ReleaseShare{}, c.policy.release_share);
  return Releasing{then};
}

// The account may hang on a dead server.
Duration account_limit(const Context& c) {
  const bool hurried = on_share(c) && (c.facts.notice || c.facts.leave);
  return hurried ? c.policy.parting_account : c.policy.ledger;
}

Next on(const Preparing&, const Mounted&, Context& c) {
  c.facts.mounted = true;
  if (Next end = leaving(c)) return end;
  return read_account(c);
}

// A mount that was given up may have happened: releasing it settles that. One that is of no use is
// not left behind.
Next on(const Preparing&, const EffectFailed& failed, Context& c) {
  const bool given_up = failed.failure == Failure::Abandoned;
  const bool silent =
      failed.failure == Failure::Unavailable || failed.failure == Failure::ShareSilent;
  c.facts.mounted = c.facts.mounted || given_up || failed.unsettled;
  if (!given_up && !silent) {
    c.facts.ended_success = false;  // what it wrote need not outlive the mount
    c.tell(ReleaseShare{}, c.policy.release_share);
  }
  if (Next end = leaving(c)) return end;
  if (given_up) return retry_later(c, failed);
  return block(c, silent ? Block::ShareSilent : Block::ShareUnusable, failed.detail);
}

Next on(const Releasing& stage, const Unmounted&, Context& c) {
  c.facts.mounted = c.facts.ended_success = false;
  return next_release_step(c, stage.then);
}

// Nobody waits for it: the share is as free with the mount as without.
Next on(const Releasing& stage, const EffectFailed&, Context& c) {
  return on(stage, Unmounted{}, c);
}

}  // namespace spotter::decide
