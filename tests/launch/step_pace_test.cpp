#include "agent/launch/deadline.hpp"

#include <gtest/gtest.h>

namespace spotter::launch {
namespace {

using namespace std::chrono_literals;

// A trainer that reports every so often.
class Trainer {
 public:
  void trains(int reports, Duration each, std::uint64_t steps = 10) {
    for (int i = 0; i < reports; ++i) {
      now_ += each;
      pace.observe(step_ += steps, now_);
    }
  }
  void pauses(Duration how_long) { now_ += how_long; }
  void says_the_same_for(Duration how_long) {
    for (Duration each = 1s; how_long > 0s; how_long -= each) {
      now_ += each;
      pace.observe(step_, now_);
    }
  }
  StepPace pace;

 private:
  Time now_{1h};
  std::uint64_t step_ = 0;
};

TEST(StepPace, IsOfTheLastMinutes) {
  Trainer trainer;
  EXPECT_FALSE(trainer.pace.per_second());
  trainer.trains(1, 10s);
  EXPECT_FALSE(trainer.pace.per_second()) << "of one report";
  trainer.trains(60, 10s);
  EXPECT_DOUBLE_EQ(*trainer.pace.per_second(), 1);
  trainer.trains(30, 20s);
  EXPECT_DOUBLE_EQ(*trainer.pace.per_second(), 0.5) << "another machine";
}

// Five times the work would be left, for as long as the pause is among those minutes.
TEST(StepPace, LeavesAPauseOut) {
  for (const Duration pause : {Duration(100s), Duration(10min), Duration(2h)}) {
    Trainer trainer;
    trainer.trains(21, 10s);
    trainer.pauses(pause);
    for (int report = 0; report < 30; ++report) {
      trainer.trains(1, 10s);
      EXPECT_NEAR(*trainer.pace.per_second(), 1, 0.01) << report;
    }
  }
}

TEST(StepPace, APauseMayBeFullOfReportsOfTheSameStep) {
  Trainer trainer;
  trainer.trains(15, 10s);
  trainer.says_the_same_for(10min);
  EXPECT_DOUBLE_EQ(*trainer.pace.per_second(), 1);
  trainer.trains(3, 10s);
  EXPECT_NEAR(*trainer.pace.per_second(), 1, 0.01);
}

TEST(StepPace, AStretchOfMostOfTheStepsIsNoPause) {
  Trainer trainer;
  trainer.trains(3, 1ms, 1);
  trainer.trains(1, 100s, 100);
  EXPECT_NEAR(*trainer.pace.per_second(), 1.02, 0.01);
}

TEST(StepPace, BeginsAgainWhereTheTrainerDoes) {
  Trainer trainer;
  trainer.trains(30, 10s);
  trainer.pace.observe(5, Time{2h});
  EXPECT_FALSE(trainer.pace.per_second());
  trainer.pace.observe(10, Time{2h + 10s});
  EXPECT_DOUBLE_EQ(*trainer.pace.per_second(), 0.5);
}

}  // namespace
}  // namespace spotter::launch
