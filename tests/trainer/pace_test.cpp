// When a trainer checkpoints and when it goes: all on times that the story hands in.
#include "trainer/library/session.hpp"

#include <gtest/gtest.h>

namespace spotter::checkpoint {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A training of steps of 100 ms, whose checkpoints stall it for 200 ms and take 2 s to write.
class Training : public ::testing::Test {
 protected:
  Pace pace{seconds(60), Instant(0)};
  Instant now{0};
  std::vector<Instant> saves;

  // One step and what follows it. True: it left.
  bool step() {
    now += milliseconds(100);
    pace.stepped(now);
    if (pace.checkpoint_due(now)) {
      saves.push_back(now);
      pace.saved(now, milliseconds(200));
      now += milliseconds(200);
      pace.wrote(0, seconds(2));
    }
    return pace.stop_due(now);
  }
  void train_until(Instant end) {
    while (now < end) ASSERT_FALSE(step());
  }
};

TEST_F(Training, ChecksEverySoOftenAndNeverStopsByItself) {
  train_until(seconds(200));
  EXPECT_EQ(saves.size(), 3U);
  EXPECT_EQ(saves.front(), seconds(60));
}

TEST_F(Training, ARequestIsHonouredOnce) {
  train_until(seconds(5));
  pace.wanted(now);
  train_until(seconds(10));
  EXPECT_EQ(saves, (std::vector<Instant>{seconds(5) + milliseconds(100)}));
  pace.wanted(seconds(4));  // the same file read again, or one of before the last checkpoint
  train_until(seconds(20));
  EXPECT_EQ(saves.size(), 1U);
}

TEST_F(Training, AStopWithoutATimeIsACheckpointAndOut) {
  train_until(seconds(5));
  pace.stop(now, std::nullopt);
  EXPECT_FALSE(pace.stop_due(now));
  EXPECT_TRUE(step());
  EXPECT_EQ(saves.size(), 1U);
  EXPECT_FALSE(pace.checkpoint_due(now)) << "one is enough";
}

TEST_F(Training, TheWindowOfANoticeIsTrainedInUntilTheLastSafeMoment) {
  train_until(seconds(70));
  const Instant notice = now;
  const Instant gone = now + seconds(100);
  pace.stop(notice, gone);
  saves.clear();
  while (!step()) ASSERT_LT(now, gone);
  ASSERT_EQ(saves.size(), 2U) << "at once, and at the last moment";
  EXPECT_LT(saves[0], notice + seconds(1));
  // 2.2 s to be durable, a fifth as much again, a step, a second to exit.
  EXPECT_GT(saves[1], gone - seconds(4));
  EXPECT_LT(saves[1] + milliseconds(2200 * 6 / 5), gone);
  const auto trained = pace.trained_in_window();
  ASSERT_TRUE(trained);
  EXPECT_GT(*trained, seconds(94));
  EXPECT_LT(*trained, saves[1] - notice);
}

// All since the last checkpoint is at stake: there is no room for one at once and one at the end.
TEST_F(Training, WhereNothingIsSavedSinceTheNoticeTheLastSaveBeginsEarlier) {
  train_until(seconds(70));
  const Instant gone = now + seconds(8);
  pace.stop(now, gone);
  saves.clear();
  while (!step()) ASSERT_LT(now, gone);
  ASSERT_EQ(saves.size(), 1U);
  EXPECT_LT(saves[0], gone - milliseconds(2200 * 3 / 2));
}

TEST_F(Training, InAShortWindowThereIsOneCheckpointOnly) {
  train_until(seconds(70));
  pace.stop(now, now + seconds(6));
  saves.clear();
  while (!step()) ASSERT_LT(now, seconds(80));
  EXPECT_EQ(saves.size(), 1U);
}

TEST_F(Training, ASaveThatCannotFinishIsSkipped) {
  train_until(seconds(70));
  pace.stop(now, now + seconds(2));
  EXPECT_FALSE(pace.can_finish(now, 0));
  pace.skipped();
  EXPECT_TRUE(pace.stop_due(now)) << "the last durable one has to do";
  EXPECT_FALSE(pace.checkpoint_due(now));
}

TEST_F(Training, ASaveBehindAnotherNeedsTheTimeOfBoth) {
  train_until(seconds(70));
  pace.stop(now, now + seconds(3));
  EXPECT_TRUE(pace.can_finish(now, 0));
  EXPECT_FALSE(pace.can_finish(now, 1));
}

TEST_F(Training, TwoPlacesTakeTheTimeOfBoth) {
  pace.wrote(0, seconds(1));
  pace.wrote(1, seconds(5));
  pace.stop(now, now + seconds(4));
  EXPECT_FALSE(pace.can_finish(now, 0));
}

TEST_F(Training, WhereNothingWasMeasuredTheNoticeIsAnsweredAtOnce) {
  pace.stop(now, now + seconds(30));
  step();
  EXPECT_EQ(saves.size(), 1U);
}

TEST_F(Training, AnEvaluationIsDoneOnlyWhereTheLastSaveHasTheTimeBehindIt) {
  train_until(seconds(70));
  EXPECT_TRUE(pace.has_time(now, seconds(3600))) << "nobody asks to stop";
  pace.stop(now, now + seconds(60));
  EXPECT_TRUE(pace.has_time(now, seconds(50)));
  EXPECT_FALSE(pace.has_time(now, seconds(59))) << "2.2 s to be durable, and more";
  pace.stop(now, std::nullopt);
  EXPECT_FALSE(pace.has_time(now, seconds(0)));
}

}  // namespace
}  // namespace spotter::checkpoint
