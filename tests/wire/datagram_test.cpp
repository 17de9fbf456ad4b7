#include "agent/wire/datagram.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

TEST(Datagram, ReadsProgress) {
  const auto message = parse_datagram(
      "STATUS=epoch 2\nX_SPOTTER_STEP=1234\nX_SPOTTER_STEPS_TOTAL=2345\nX_SPOTTER_EPOCH=2\n"
      "X_SPOTTER_EPOCHS_TOTAL=5\nX_SPOTTER_LOSS=0.125\nX_SPOTTER_ACCURACY=9.7e-1");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->status, "epoch 2");
  EXPECT_EQ(message->progress, (Progress{.step = 1234,
                                         .steps_total = 2345,
                                         .epoch = 2,
                                         .epochs_total = 5,
                                         .loss = 0.125,
                                         .accuracy = 0.97}));
  EXPECT_FALSE(message->ready);
}

TEST(Datagram, ReadsMetricsByName) {
  const auto message = parse_datagram(
      "X_SPOTTER_METRIC=val_loss 0.25\nX_SPOTTER_STEP=7\nX_SPOTTER_METRIC=val/acc 9e-1\n"
      "X_SPOTTER_METRIC=val_loss nan\nX_SPOTTER_METRIC=loss 1\nX_SPOTTER_METRIC=a b 1\n"
      "X_SPOTTER_METRIC=7up 1\nX_SPOTTER_METRIC= 1\nX_SPOTTER_METRIC=x\nX_SPOTTER_METRIC=\n"
      "X_SPOTTER_METRIC=y 1x\nX_SPOTTER_METRIC=" +
      std::string(longest_metric_name + 1, 'z') + " 1\n");
  ASSERT_TRUE(message && message->progress);
  EXPECT_EQ(message->progress->metrics, (MetricValues{{"val_loss", 0.25}, {"val/acc", 0.9}}));
  EXPECT_FALSE(message->progress->loss) << "which has a key of its own";
  EXPECT_FALSE(parse_datagram("X_SPOTTER_METRIC=val_loss 1")->progress) << "of no step";
}

TEST(Datagram, SaysThatItWasReadInTheTrainersLog) {
  EXPECT_TRUE(parse_datagram("X_SPOTTER_LOG=1\nX_SPOTTER_STEP=7\n")->of_log);
  EXPECT_FALSE(parse_datagram("X_SPOTTER_STEP=7\n")->of_log);
}

TEST(Datagram, HasSoManyMetricsAtMost) {
  std::string bytes = "X_SPOTTER_STEP=1\n";
  for (char name = 'a'; name <= 'z'; ++name)
    bytes += std::string("X_SPOTTER_METRIC=") + name + " 1\n";
  const auto metrics = parse_datagram(bytes + "X_SPOTTER_METRIC=a 2\n")->progress->metrics;
  EXPECT_EQ(metrics.size(), most_metrics);
  EXPECT_EQ(metrics.at("a"), 2) << "the last word of a name counts";
}

TEST(Datagram, ReadsTheSingleWords) {
  EXPECT_TRUE(parse_datagram("READY=1\n")->ready);
  EXPECT_TRUE(parse_datagram("WATCHDOG=1")->watchdog);
  EXPECT_FALSE(parse_datagram("READY=0")->ready);
  EXPECT_TRUE(parse_datagram("X_SPOTTER_FINISHED=1")->finished);
  EXPECT_EQ(parse_datagram("X_SPOTTER_RESUMED_STEP=0")->resumed_step, 0u);
}

TEST(Datagram, TakesACheckpointOnlyWhole) {
  EXPECT_EQ(
      parse_datagram("X_SPOTTER_CHECKPOINT=/c/step-1\nX_SPOTTER_CHECKPOINT_STEP=1")->checkpoint,
      (DurableCheckpoint{"/c/step-1", 1}));
  EXPECT_FALSE(parse_datagram("X_SPOTTER_CHECKPOINT=/c/step-1")->checkpoint);
  const std::string whole = "X_SPOTTER_CHECKPOINT=/c\nX_SPOTTER_CHECKPOINT_STEP=1\n";
  const std::string key = "X_SPOTTER_CHECKPOINT_SECONDS=";
  EXPECT_EQ(parse_datagram(whole + key + "1.5")->checkpoint->seconds, 1.5);
  for (const char* nonsense : {"-1", "nan", "1e9", "x"}) {  // the checkpoint itself is still taken
    ASSERT_TRUE(parse_datagram(whole + key + nonsense)->checkpoint);
    EXPECT_FALSE(parse_datagram(whole + key + nonsense)->checkpoint->seconds) << nonsense;
  }
  EXPECT_EQ(parse_datagram(whole + "X_SPOTTER_CHECKPOINT_BYTES=52")->checkpoint->bytes, 52u);
  EXPECT_FALSE(parse_datagram(whole + "X_SPOTTER_CHECKPOINT_BYTES=-5")->checkpoint->bytes);
  EXPECT_FALSE(parse_datagram("X_SPOTTER_CHECKPOINT_STEP=1")->checkpoint);
  EXPECT_FALSE(parse_datagram("X_SPOTTER_CHECKPOINT=c\nX_SPOTTER_CHECKPOINT_STEP=1")->checkpoint);
}

TEST(Datagram, TakesAChannelsFlowOnlyWhole) {
  const std::string name = "X_SPOTTER_CHANNEL=train\n", bytes = "X_SPOTTER_CHANNEL_BYTES=10\n";
  const std::string stalled = "X_SPOTTER_CHANNEL_STALL_SECONDS=";
  EXPECT_EQ(parse_datagram(name + bytes + stalled + "0.5")->flow, (ChannelFlow{"train", 10, 0.5}));
  for (const std::string& part :
       {name + bytes, bytes + stalled + "1", name + stalled + "1", name + bytes + stalled + "-1",
        name + bytes + stalled + "nan", "X_SPOTTER_CHANNEL=\n" + bytes + stalled + "1"})
    EXPECT_FALSE(parse_datagram(part)->flow) << part;
}

TEST(Datagram, TakesTheSecondsTrainedInAWindow) {
  EXPECT_EQ(parse_datagram("X_SPOTTER_WINDOW_TRAINED_SECONDS=92.5")->window_trained, 92.5);
  EXPECT_FALSE(parse_datagram("X_SPOTTER_WINDOW_TRAINED_SECONDS=nan")->window_trained);
}

TEST(Datagram, SkipsWhatItCannotRead) {
  const auto message = parse_datagram(
      "nonsense\n=\nMAINPID=7\nX_SPOTTER_STEP=12\nX_SPOTTER_LOSS=nan\nX_SPOTTER_EPOCH=-1\n\nREADY="
      "1");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->progress, (Progress{.step = 12}));
  EXPECT_TRUE(message->ready);
  EXPECT_FALSE(parse_datagram("X_SPOTTER_STEP=12x")->progress);
  EXPECT_FALSE(parse_datagram("X_SPOTTER_STEP=99999999999999999999")->progress);
  EXPECT_EQ(parse_datagram("").value(), TrainerMessage{});
}

TEST(Datagram, IsBounded) {
  EXPECT_FALSE(parse_datagram(std::string(longest_datagram + 1, 'x')));
  EXPECT_FALSE(parse_datagram(std::string_view("READY=1\0", 8)));
  EXPECT_EQ(parse_datagram("STATUS=" + std::string(4000, 'x'))->status->size(),
            longest_status_text);
}

}  // namespace
}  // namespace spotter::wire
