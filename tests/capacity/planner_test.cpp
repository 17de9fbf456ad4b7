#include "agent/capacity/planner.hpp"

#include <gtest/gtest.h>

namespace spotter::capacity {
namespace {

constexpr Pool kNone{false, 0.3};
constexpr Pool kThere{true, 0.3};

Choice first_choice(const std::vector<Pool>& pools, const Standing& standing) {
  Planner planner(pools.size(), {.on_demand = 1, .start = 0.5, .tick = 1});
  planner.see(pools);
  return planner.choose(standing);
}

TEST(Planner, UsesSpotWhereItIsCheapest) {
  const Choice choice = first_choice({{true, 0.4}, kThere, {false, 0.1}}, {.work = 10, .time = 20});
  EXPECT_EQ(choice.use, Use::Spot);
  EXPECT_EQ(choice.pool, 1U);
  EXPECT_FALSE(choice.forced);
  EXPECT_GT(choice.expected, 10 * 0.3);
  EXPECT_LT(choice.expected, 10 * 1.0);
}

TEST(Planner, WaitsWhileThereIsTime) {
  EXPECT_EQ(first_choice({kNone}, {.work = 10, .time = 40}).use, Use::Nothing);
}

TEST(Planner, IsForcedByTheDeadline) {
  for (const Pool& pool : {kNone, kThere}) {
    const Choice choice = first_choice({pool}, {.work = 10, .time = 10.6});
    EXPECT_EQ(choice.use, Use::OnDemand);
    EXPECT_TRUE(choice.forced);
  }
}

TEST(Planner, StaysOnSpotCapacityAsLongAsALossLeavesTimeForAStart) {
  const Standing there{.work = 10, .time = 10.5, .use = Use::Spot, .pool = 0};
  EXPECT_TRUE(first_choice({kThere}, {.work = 10, .time = 10.4, .use = Use::Spot}).forced);
  EXPECT_FALSE(first_choice({kThere}, there).forced);
}

TEST(Planner, DoesNotLeaveAPoolForOneThatIsALittleCheaper) {
  const Standing there{.work = 10, .time = 40, .use = Use::Spot, .pool = 0};
  EXPECT_EQ(first_choice({kThere, {true, 0.28}}, there).pool, 0U);
  EXPECT_EQ(first_choice({kThere, {true, 0.10}}, there).pool, 1U);
}

TEST(Planner, DoesNotUseSpotThatIsDearerThanOnDemand) {
  EXPECT_NE(first_choice({{true, 1.2}}, {.work = 10, .time = 20}).use, Use::Spot);
}

}  // namespace
}  // namespace spotter::capacity
