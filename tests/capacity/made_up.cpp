#include "tests/capacity/made_up.hpp"

#include <cmath>
#include <random>

namespace spotter::capacity {

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"flickers", 0.7, 0.5},
      {"hours", 4, 2},
      {"heavy tail", 4, 4, 0.5},
      {"heavier tail", 6, 10, 0.4, 1, 0.33},
      {"scarce", 2, 10},
      {"plenty", 20, 1},
      {"days", 24, 24, 1, 1, 0.35},
      {"three pools", 3, 5, 0.6, 3},
      {"nine pools", 3, 12, 0.5, 9, 0.33},
      {"three that flicker", 0.6, 1.5, 0.7, 3, 0.35},
      {"two regions", 3, 8, 0.5, 4, 0.33, 2, 0.2},
      {"three regions", 2, 6, 0.6, 3, 0.33, 3, 0.5},
  };
  return all;
}

Market make_up(const Kind& kind, unsigned seed, std::size_t ticks) {
  std::mt19937 chance(seed);
  std::uniform_real_distribution<> even(0, 1);
  std::normal_distribution<> differ(0, 0.4);
  Market market;
  market.move = kind.move;
  for (std::size_t i = 0; i < kind.pools; ++i) {
    MarketPool pool{.name = kind.name + " " + std::to_string(i),
                    .available = {},
                    .dollars = {},
                    .place = i % kind.places};
    const double dollars = kind.spot * (0.85 + 0.3 * even(chance));
    const double lasts[] = {kind.absent * std::exp(differ(chance)),
                            kind.available * std::exp(differ(chance))};
    bool available = even(chance) * (kind.available + kind.absent) < kind.available;
    double left = 0;
    for (std::size_t tick = 0; tick < ticks; ++tick) {
      for (; left <= 0; available = !available) {
        const double scale = lasts[available ? 0 : 1] / std::tgamma(1 + 1 / kind.shape);
        left += std::weibull_distribution<>(kind.shape, scale)(chance);
      }
      left -= market.tick;
      pool.available.push_back(available);
      pool.dollars.push_back(dollars);
    }
    market.pools.push_back(std::move(pool));
  }
  return market;
}

}  // namespace spotter::capacity
