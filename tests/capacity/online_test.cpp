// The part of our policy's cost beyond the optimum that no policy could spare.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/capacity/online.hpp"
#include "tests/capacity/optimum.hpp"
#include "tests/capacity/report.hpp"

namespace spotter::capacity {
namespace {

struct Means {
  double online = 0, ours = 0;  // by the optimum
};

Means means_of(const Chain& chain, double times, unsigned markets) {
  constexpr double work = 24;
  const auto ticks = static_cast<std::size_t>(std::ceil(work * times * 6));
  const Task task{0, ticks, work, 0.1};
  const Online online(chain, task, Market{}.tick);
  Means means;
  for (unsigned seed = 0; seed < markets; ++seed) {
    const Market market = draw(chain, 7919 * seed + 1, ticks);
    const double least = optimum(market, task);
    const Outcome best = play(market, task, *online.policy());
    const Outcome ours = play(market, task, *watched(market, task, watching_of(market)));
    EXPECT_TRUE(best.in_time && ours.in_time) << seed;
    means.online += best.dollars / least / markets;
    means.ours += ours.dollars / least / markets;
  }
  return means;
}

TEST(Online, KnowsWhatWillBeWhereNothingChanges) {
  const Chain chain{.available = 1e9, .absent = 1e-9};
  const Means means = means_of(chain, 1.3, 2);
  EXPECT_NEAR(means.online, 1, 0.01);
  EXPECT_NEAR(means.ours, 1, 0.01);
}

// Capacity that lasts 2 h and is gone for 6: who knows the rates exactly, and does what is best on
// the average, pays more than who knows the future. Ours, which has to learn them, pays little more
// than that.
TEST(Online, OursPaysLittleMoreThanWhoKnowsTheRates) {
  double online = 0, ours = 0;
  for (const double times : {1.15, 1.6, 2.2}) {
    const Means means = means_of({}, times, 8);
    std::printf("%.2f x the work: known rates %.3f, ours %.3f x the optimum\n", times, means.online,
                means.ours);
    online += means.online / 3;
    ours += means.ours / 3;
  }
  EXPECT_GT(online, 1.01);
  EXPECT_LT(ours, 1.05 * online);
}

}  // namespace
}  // namespace spotter::capacity
