#include "agent/capacity/planner.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace spotter::capacity {
namespace {

constexpr double kNone = 0;  // dollars: there is no spot capacity

Choice first_choice(double dollars, const Standing& standing) {
  const Settings settings{.on_demand = 1, .spot = dollars, .start = 0.5, .tick = 1};
  const Spells spells(settings.available, settings.absent, settings.half_life);
  return choose(spells, dollars > 0, settings, standing);
}

TEST(Planner, UsesSpotWhereItIsCheapest) {
  const Choice choice = first_choice(0.3, {.work = 10, .time = 20});
  EXPECT_EQ(choice.use, Use::Spot);
  EXPECT_FALSE(choice.forced);
  EXPECT_GT(choice.expected, 10 * 0.3);
  EXPECT_LT(choice.expected, 10 * 1.0);
}

TEST(Planner, WaitsWhileThereIsTime) {
  EXPECT_EQ(first_choice(kNone, {.work = 10, .time = 40}).use, Use::Nothing);
}

TEST(Planner, IsForcedByTheDeadline) {
  for (const double dollars : {kNone, 0.3}) {
    const Choice choice = first_choice(dollars, {.work = 10, .time = 10.6});
    EXPECT_EQ(choice.use, Use::OnDemand);
    EXPECT_TRUE(choice.forced);
  }
}

TEST(Planner, StaysOnSpotCapacityAsLongAsALossLeavesTimeForAStart) {
  EXPECT_TRUE(first_choice(0.3, {.work = 10, .time = 10.4, .use = Use::Spot}).forced);
  EXPECT_FALSE(first_choice(0.3, {.work = 10, .time = 10.5, .use = Use::Spot}).forced);
}

TEST(Planner, DoesNotUseSpotThatIsDearerThanOnDemand) {
  EXPECT_NE(first_choice(1.2, {.work = 10, .time = 20}).use, Use::Spot);
}

// A caller that keeps tables gets the same ones asked for again, for terms that are nearly the
// same.
TEST(Planner, AsksForTheValuesOfRoundedTerms) {
  std::optional<Values> kept;
  std::vector<double> asked;
  const auto keep = [&](const Terms& terms, double work, double slack) -> const Values& {
    asked = {terms.spot, terms.on_demand, terms.losses_an_hour, terms.returns_an_hour, work, slack};
    return kept.emplace(terms, work, slack);
  };
  const auto ask = [](double dollars, double work, const ValuesOf& values_of) {
    return choose({{2, 4}, {1, 3}, 72}, true, {.on_demand = 2, .spot = dollars, .start = 0.5},
                  {.work = work, .time = 30}, values_of)
        .expected;
  };
  EXPECT_DOUBLE_EQ(ask(0.5, 10, keep), ask(0.5, 10, {}));
  const auto before = asked;
  EXPECT_EQ(before[0], 0.25);
  EXPECT_EQ(before[1], 1) << "in hours on demand";
  EXPECT_TRUE(before[4] >= 10 && before[5] >= 20);
  ask(0.51, 10.1, keep);
  EXPECT_EQ(asked, before);
  ask(0.6, 10, keep);
  EXPECT_NE(asked, before);
}

}  // namespace
}  // namespace spotter::capacity
