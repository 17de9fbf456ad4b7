// Ranks that do no step for long.
#include "agent/gang/stall.hpp"

#include <gtest/gtest.h>

namespace spotter::gang {
namespace {

using Turn = StallWatch::Turn;
constexpr Duration minutes(std::int64_t count) { return Duration(count * 60'000); }

const std::string loads =
    "Current thread 0x00007f0 (most recent call first):\n"
    "  File \"/home/me/train.py\", line 30 in load\n  File \"/home/me/train.py\", line 80 in "
    "main\n";
const std::string waits =
    "Current thread 0x00007f1 (most recent call first):\n"
    "  File \"/usr/lib/python3/dist-packages/torch/autograd/__init__.py\", line 197 in backward\n"
    "  File \"/home/me/train.py\", line 85 in main\n";

struct Watched : ::testing::Test {
  Turn after(Duration duration, std::vector<RankSeen> ranks) {
    now += duration;
    return watch.look(now, ranks);
  }
  Time now{Duration(1'000'000)};
  StallWatch watch{minutes(10)};
};

TEST_F(Watched, AStepInTimeIsEnough) {
  for (std::int64_t step = 0; step < 5; ++step)
    EXPECT_EQ(after(minutes(9), {{0, step}, {1, step}}), Turn::Nothing);
}

TEST_F(Watched, WhatComesBeforeTheFirstStepMayTakeLong) {
  EXPECT_EQ(after(minutes(0), {}), Turn::Nothing);
  EXPECT_EQ(after(minutes(60), {{0, -1}, {1, -1}}), Turn::Nothing);
  EXPECT_EQ(after(minutes(60), {{0, -1}, {1, -1}}), Turn::Nothing);
}

TEST_F(Watched, NamesTheRankThatHangsAndNotThoseThatWaitForIt) {
  EXPECT_EQ(after(minutes(0), {{0, 7}, {1, 7}}), Turn::Nothing);
  EXPECT_EQ(after(minutes(10), {{0, 7}, {1, 7}}), Turn::Ask);
  EXPECT_EQ(after(Duration(1'000), {{0, 7}, {1, 7}}), Turn::Nothing) << "they are still asked";
  EXPECT_EQ(after(Duration(2'000), {{0, 7, waits}, {1, 7, loads}}), Turn::End);
  EXPECT_EQ(watch.words(), "hangs: local rank 1 in train.py:30 in load");
  EXPECT_EQ(watch.end(), End::Hung);
  EXPECT_EQ(after(minutes(1), {{0, 7}, {1, 7}}), Turn::Nothing) << "the next round begins";
}

TEST_F(Watched, OneWhoseRanksAllWaitEndsLater) {
  EXPECT_EQ(after(minutes(0), {{0, 7}}), Turn::Nothing);
  EXPECT_EQ(after(minutes(10), {{0, 7}}), Turn::Ask);
  EXPECT_EQ(after(minutes(1), {{0, 7, waits}}), Turn::Nothing);
  EXPECT_EQ(after(minutes(2), {{0, 7, waits}}), Turn::End);
  EXPECT_EQ(watch.words(), "waits for a rank elsewhere that hangs");
  EXPECT_EQ(watch.end(), End::Torn) << "or for a network";
}

TEST_F(Watched, OneThatDoesNotSayWhereItIsEndsLater) {
  EXPECT_EQ(after(minutes(0), {{0, 7}}), Turn::Nothing);
  EXPECT_EQ(after(minutes(10), {{0, 7}}), Turn::Ask);
  EXPECT_EQ(after(minutes(1), {{0, 7}}), Turn::Nothing);
  EXPECT_EQ(after(minutes(2), {{0, 7}}), Turn::End);
  EXPECT_EQ(watch.words(), "hangs, or waits, and does not say where: local rank 0");
  EXPECT_EQ(watch.end(), End::Other);
}

TEST_F(Watched, AStepWhileItIsAskedEndsNothing) {
  EXPECT_EQ(after(minutes(0), {{0, 7}}), Turn::Nothing);
  EXPECT_EQ(after(minutes(10), {{0, 7}}), Turn::Ask);
  EXPECT_EQ(after(minutes(1), {{0, 8, loads}}), Turn::Nothing);
  EXPECT_EQ(after(minutes(9), {{0, 8, loads}}), Turn::Nothing);
}

TEST(AStack, SaysWhereItsRankIs) {
  EXPECT_EQ(innermost(loads), "train.py:30 in load");
  EXPECT_FALSE(only_waits(loads));
  EXPECT_TRUE(only_waits(waits));
  EXPECT_FALSE(only_waits(waits + "\n" + loads)) << "the newest counts";
  EXPECT_EQ(innermost(waits + "\n" + loads), "train.py:30 in load");
  for (const char* none : {"", "File \"", "File \"a", "File \"a\", line 3", "no stack"}) {
    EXPECT_EQ(innermost(none), "") << none;
    EXPECT_FALSE(only_waits(none));
  }
}

}  // namespace
}  // namespace spotter::gang
