// When a trainer that is silent hangs, and when it only takes its time.
#include "agent/service/sense/stall.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace spotter::sense {
namespace {

using std::chrono::minutes;

class StillnessStory : public ::testing::Test {
 protected:
  StillnessStory() { still_.begin(now_); }

  // A minute passes; `share` of a processor was used, and so many signs came.
  bool minute(double share, std::uint64_t signs = 0) {
    now_ += minutes(1);
    seen_.processor_ms += static_cast<std::uint64_t>(share * 60'000);
    seen_.signs += signs;
    return still_.look(now_, seen_);
  }
  // After how many minutes without a sign it hangs; -1: not within a day.
  int hangs_after(double share) {
    for (int i = 1; i < 24 * 60; ++i)
      if (minute(share)) return i;
    return -1;
  }

  Time now_{minutes(1000)};
  Activity seen_;
  Stillness still_{minutes(30)};
};

TEST_F(StillnessStory, SilentAndIdleItHangsAfterHalfAnHour) {
  EXPECT_FALSE(minute(1.0, 1));
  EXPECT_EQ(hangs_after(0.01), 30);
}

TEST_F(StillnessStory, SilentWithAProcessorAtWorkItNeverHangs) { EXPECT_EQ(hangs_after(0.05), -1); }

TEST_F(StillnessStory, ALineNowAndThenIsEnough) {
  for (int i = 0; i < 500; ++i) EXPECT_FALSE(minute(0, i % 25 == 0 ? 1 : 0)) << i;
}

TEST_F(StillnessStory, FiveTimesTheLongestPauseIsWaited) {
  minute(0, 1);
  for (int i = 0; i < 19; ++i) minute(0);
  minute(0, 1);  // after 20 minutes
  EXPECT_EQ(hangs_after(0), 100);
}

TEST_F(StillnessStory, ThePauseThatAnEarlierAgentSawCounts) {
  still_ = Stillness(minutes(30), minutes(20));
  still_.begin(now_);
  EXPECT_EQ(hangs_after(0), 100);
  still_.begin(now_);  // another trainer of the same job
  EXPECT_EQ(hangs_after(0), 100);
}

TEST_F(StillnessStory, AGpuAtWorkIsNoHang) {
  minute(1.0, 1);
  EXPECT_EQ(hangs_after(0), 30);
  still_.works(now_);
  EXPECT_EQ(hangs_after(0), 30) << "from then on";
}

TEST_F(StillnessStory, ProcessesThatEndAreWork) {
  for (int i = 0; i < 100; ++i) {
    now_ += minutes(1);
    seen_.processor_ms = i % 2 == 0 ? 1'000'000 : 0;
    EXPECT_FALSE(still_.look(now_, seen_));
  }
}

TEST(Threads, AreNamedWithTheirProcess) {
  const auto lines = threads_of({supervise::find_process(::getpid()).value()});
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines.front().find(std::to_string(::getpid()) + " (sense_test)"), std::string::npos)
      << lines.front();
}

}  // namespace
}  // namespace spotter::sense
