#include "agent/launch/beside.hpp"

#include <algorithm>

namespace spotter::launch {
namespace {

// Each look of each watcher shows a machine that was launched so long ago.
constexpr std::chrono::minutes shown{3};

wire::WallTime created(const WatchedFleet& it) { return it.created.value_or(wire::WallTime{}); }

wire::WallTime runs_since(const Watched& seen, const WatchedFleet& fleet) {
  auto first = wire::WallTime::max();
  for (const WatchedMachine& it : seen.machines)
    if (!it.spot && it.state <= WatchedMachine::State::Running && it.fleet == fleet.id)
      first = std::min(first, it.launched.value_or(first));
  return first;
}

}  // namespace

Stays which_stays(const Watched& seen) {
  const auto oldest = std::ranges::min_element(seen.beside, {}, created);
  const auto best = std::ranges::min_element(seen.beside, {}, [&](const WatchedFleet& it) {
    return std::pair(runs_since(seen, it), created(it));
  });
  return {best->id, best == oldest || seen.now - runs_since(seen, *best) >= shown};
}

bool may_run_unseen(const Watched& seen, Duration start) {
  const bool asked =
      seen.mark && seen.mark->outlook && seen.mark->outlook->choice == capacity::Use::OnDemand;
  if (seen.unread.empty() || !asked) return false;
  if (!seen.publication_known) return true;
  const auto& last = seen.publication;
  const auto limit = std::chrono::ceil<std::chrono::seconds>(start + silent_for);
  return last && seen.now - last->at < limit &&
         std::ranges::none_of(seen.machines,
                              [&](const WatchedMachine& it) { return it.id == last->instance; });
}

}  // namespace spotter::launch
