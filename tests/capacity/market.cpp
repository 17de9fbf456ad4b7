#include "tests/capacity/market.hpp"

#include <algorithm>
#include <cstdlib>

namespace spotter::capacity {
namespace {

constexpr double kDone = 1e-9;  // hours; what rounding leaves

}  // namespace

std::vector<Pool> Market::at(std::size_t which) const {
  std::vector<Pool> now;
  for (const MarketPool& pool : pools)
    now.push_back({pool.available[which], pool.dollars[which], pool.place});
  return now;
}

Outcome play(const Market& market, const Task& task, Policy& policy) {
  Outcome outcome;
  Position standing{.work = task.work, .time = static_cast<double>(task.ticks) * market.tick};
  double starting = 0;
  for (std::size_t i = 0; i < task.ticks && standing.work > kDone; ++i) {
    const auto pools = market.at(task.first + i);
    if (standing.use == Use::Spot && !pools[standing.pool].available) standing.use = Use::Nothing;
    standing.paid = outcome.dollars;
    const Pick choice = policy.choose(pools, standing);
    const bool spot = choice.use == Use::Spot;
    if (spot && !pools[choice.pool].available) std::abort();
    const bool same = choice.use == standing.use && (!spot || choice.pool == standing.pool);
    standing.time -= market.tick;
    outcome.hours += market.tick;
    standing.use = choice.use;
    standing.pool = choice.pool;
    if (spot) {
      const std::size_t place = pools[choice.pool].place;
      if (standing.place && *standing.place != place) outcome.dollars += market.move;
      standing.place = place;
    }
    if (choice.use == Use::OnDemand && !standing.place) standing.place = choice.place;
    if (choice.use == Use::Nothing) continue;
    outcome.starts += same ? 0 : 1;
    if (!same) starting = task.start;
    outcome.dollars += market.tick * (spot ? pools[choice.pool].dollars : market.on_demand);
    standing.work -= std::max(0.0, market.tick - starting);
    starting = std::max(0.0, starting - market.tick);
  }
  outcome.in_time = standing.work <= kDone;
  return outcome;
}

}  // namespace spotter::capacity
