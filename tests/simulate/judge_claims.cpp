// The claim (a new generation on the volume) protects what is written only when all others can have
// seen it: EC2 may show a change only after the consistency bound.
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

bool Simulation::is_claim_unseen(const Host& host) const {
  if (policy_.fence) return false;  // its epoch is seen at once
  const decide::Facts& facts = host.agent.state.facts;
  return facts.holding.claimed_at != decide::kNever &&
         facts.holding.purpose == decide::Purpose::Train &&
         now_ - facts.holding.claimed_at < policy_.consistency_bound + 2 * policy_.commit_call;
}

// A machine that copies the volume deletes the original when it sees no claim: so nothing is
// written before the claim can be seen.
void Simulation::judge_first_write(const Host& host) {
  if (!is_claim_unseen(host)) return;
  const Time known = host.agent.state.facts.holding.claimed_at - policy_.consistency_bound;
  world_.cloud().volumes.each([&](const world::Volume& copy) {
    const auto parent = copy.tags.find("spotter:parent");
    const bool of_it = parent != copy.tags.end() && parent->second == host.mounted.view();
    if (of_it && copy.state != world::VolumeState::Deleted && copy.created < known) {
      broken("a volume that is being copied is written to before the claim can be seen");
    }
  });
}

// Used for less than the bound and released: no agent might ever see that it was written to.
void Simulation::judge_hold(const Host& host) {
  const auto& notice = host.agent.state.facts.exit.notice;
  const bool late = notice && notice->deadline - now_ < 2 * policy_.consistency_bound;
  if (is_claim_unseen(host) && !late) {
    broken("a volume is released before the claim can be seen");
  }
}

}  // namespace spotter::simulate
