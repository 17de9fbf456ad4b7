#include "agent/capacity/planner.hpp"

#include <gtest/gtest.h>

namespace spotter::capacity {
namespace {

constexpr double kNoEnd = 1e12;  // a half-life: nothing fades

TEST(Spells, HaveAPriorBeforeAnythingIsSeen) {
  const Spells spells({2, 4}, {1, 3}, kNoEnd);
  EXPECT_NEAR(spells.losses_an_hour(), 2.0 / 8, 1e-9);
  EXPECT_NEAR(spells.returns_an_hour(), 1.0 / 3, 1e-9);
}

TEST(Spells, CountEndsAndHours) {
  Spells spells({1, 1}, {1, 1}, kNoEnd);
  for (int i = 0; i < 9; ++i) {
    spells.see(true);
    spells.pass(5);
    spells.see(false);
    spells.pass(2);
  }
  EXPECT_NEAR(spells.losses_an_hour(), 10.0 / 46, 1e-9);
  EXPECT_NEAR(spells.returns_an_hour(), 9.0 / 19, 1e-9) << "the last outage goes on";
}

TEST(Spells, AnOutageThatLastsLooksLonger) {
  Spells spells({1, 1}, {1, 1}, kNoEnd);
  spells.see(false);
  double before = spells.returns_an_hour();
  for (int hour = 0; hour < 5; ++hour) {
    spells.pass(1);
    EXPECT_LT(spells.returns_an_hour(), before);
    before = spells.returns_an_hour();
  }
  EXPECT_NEAR(spells.losses_an_hour(), 1, 1e-9) << "of losses it says nothing";
}

TEST(Spells, WhatIsOldFades) {
  Spells spells({1, 1}, {1, 1}, 10);
  for (int i = 0; i < 1000; ++i) spells.see(i % 2 == 0), spells.pass(0.1);  // flickers
  EXPECT_GT(spells.losses_an_hour(), 5);
  spells.see(true);
  for (int i = 0; i < 100; ++i) spells.pass(1);  // and then is there for days
  EXPECT_LT(spells.losses_an_hour(), 0.1);
}

}  // namespace
}  // namespace spotter::capacity
