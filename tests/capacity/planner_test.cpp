#include "agent/capacity/planner.hpp"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(Planner, LeavesAPlaceOnlyForWhatIsWorthTheMove) {
  const std::vector<Pool> pools{{true, 0.3, 0}, {true, 0.1, 1}};
  const Standing there{.work = 10, .time = 40, .use = Use::Spot, .pool = 0, .place = 0};
  const auto choose = [&](double move) {
    Planner planner(2, {.on_demand = 1, .start = 0.5, .tick = 1, .move = move});
    planner.see(pools);
    return planner.choose(there).pool;
  };
  EXPECT_EQ(choose(0), 1U);
  EXPECT_EQ(choose(0.1), 1U);
  EXPECT_EQ(choose(2), 0U);
}

TEST(Planner, DoesNotUseSpotThatIsDearerThanOnDemand) {
  EXPECT_NE(first_choice({{true, 1.2}}, {.work = 10, .time = 20}).use, Use::Spot);
}

// One of five megabytes takes the place of as many small ones as it needs.
TEST(Tables, KeepNoMoreThanTheyMay) {
  constexpr std::size_t most = std::size_t{2} << 20, fewest = 8;
  Tables tables(most);
  const auto ask = [&](int i, double slack) {
    const double losses = std::exp2(i / 4.0 - 4);
    return tables.of({.spot = 0.3, .losses_an_hour = losses}, 1, slack).bytes();
  };
  std::size_t small = 0, large = 0;
  for (int i = 0; i < 40; ++i) small = ask(i, 1);
  EXPECT_LE(tables.bytes(), most + small);
  EXPECT_GT(tables.bytes(), most / 2);
  for (int i = 0; i < 40; ++i) large = ask(i, 40);
  EXPECT_GT(large, most);
  EXPECT_LE(tables.bytes(), fewest * large);
}

TEST(Tables, AreOfOneStart) {
  Tables tables;
  const Terms terms{.spot = 0.3, .start = 0.1};
  Terms longer = terms;
  longer.start = 0.5;
  const double before = tables.of(terms, 10, 20).of(Use::Nothing, false, 10, 4);
  EXPECT_GT(tables.of(longer, 10, 20).of(Use::Nothing, false, 10, 4), before);
}

}  // namespace
}  // namespace spotter::capacity
