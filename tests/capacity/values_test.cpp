#include "agent/capacity/planner.hpp"

#include <gtest/gtest.h>

namespace spotter::capacity {
namespace {

// Capacity that never goes, or never comes.
const Terms kAlwaysThere{.spot = 0.3, .start = 0.1, .losses_an_hour = 1e-6, .returns_an_hour = 1};
const Terms kNeverThere{.spot = 0.3, .start = 0.1, .losses_an_hour = 1, .returns_an_hour = 1e-6};

TEST(Values, SpotThatStaysCostsItsPrice) {
  const Values values(kAlwaysThere, 24, 24);
  EXPECT_NEAR(values.of(Use::Spot, true, 10, 5), 3, 0.01);
  EXPECT_NEAR(values.of(Use::Nothing, true, 10, 5), 3 + 0.03, 0.01) << "and a start";
  EXPECT_NEAR(values.of(Use::OnDemand, true, 10, 5), 3 + 0.03, 0.01) << "it leaves for it";
  EXPECT_DOUBLE_EQ(values.of(Use::Spot, true, 0, 5), 0);
}

TEST(Values, SpotThatNeverComesCostsWhatIsPaidOnDemand) {
  const Values values(kNeverThere, 24, 24);
  EXPECT_NEAR(values.of(Use::Nothing, false, 10, 5), 10 + 0.1, 0.01);
  EXPECT_NEAR(values.of(Use::OnDemand, false, 10, 5), 10, 0.01);
}

TEST(Values, ADeadlineThatMayBeMissedCostsMoreThanAnyThatIsKept) {
  const Values values({.spot = 0.3}, 24, 24);
  EXPECT_GT(values.of(Use::Nothing, true, 10, 0), 900) << "no time to start";
  EXPECT_GT(values.of(Use::Spot, true, 10, 0), 100) << "a loss would be too late";
  EXPECT_NEAR(values.of(Use::OnDemand, false, 10, 0), 10, 0.05) << "but this is safe";
}

TEST(Values, MoreSlackAndLessWorkCostLess) {
  const Values values({.spot = 0.3, .losses_an_hour = 0.5, .returns_an_hour = 0.5}, 24, 24);
  for (const Use use : {Use::Nothing, Use::Spot, Use::OnDemand}) {
    for (double hours = 1; hours < 20; hours += 1.3) {
      EXPECT_LE(values.of(use, false, 10, hours + 1), values.of(use, false, 10, hours) + 1e-9);
      EXPECT_LE(values.of(use, true, hours, 8), values.of(use, true, hours + 1, 8) + 1e-9);
      EXPECT_LE(values.of(use, true, 10, hours), values.of(use, false, 10, hours) + 1e-9);
    }
  }
}

}  // namespace
}  // namespace spotter::capacity
