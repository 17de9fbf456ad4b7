// The time between checkpoints, and what is worth its price.
#include "agent/decide/pace.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

// The share of time that is lost when a checkpoint of cost `stall` is written each `interval` and
// failures come as a Poisson process: Daly's own exact model, without a restart time.
double waste(double interval, double stall, double between) {
  const double wall = between * (std::exp((interval + stall) / between) - 1);
  return 1 - interval / wall;
}

TEST(Pace, NoOtherIntervalWastesLess) {
  for (const double stall : {0.5, 5.0, 60.0, 600.0}) {
    for (const double between : {1'800.0, 36'000.0, 600'000.0}) {
      const Duration chosen =
          daly_interval(std::chrono::round<Duration>(std::chrono::duration<double>(stall)),
                        std::chrono::round<Duration>(std::chrono::duration<double>(between)));
      const double here = std::chrono::duration<double>(chosen).count();
      const double wasted = waste(here, stall, between);
      for (double other = 1; other < 20 * between; other *= 1.05) {
        // Daly's series is within a few thousandths of the optimum where stall < between / 2.
        EXPECT_LE(wasted, waste(other, stall, between) + 0.004)
            << stall << " s, " << between << " s: " << here << " against " << other;
      }
    }
  }
}

TEST(Pace, ACheckpointDearerThanTheWorkIsWrittenOnceALoss) {
  EXPECT_EQ(daly_interval(hours(2), minutes(30)), minutes(30));
}

TEST(Pace, OnlyUnannouncedLossesMakeItFaster) {
  const Policy policy;
  Ledger quiet;
  quiet.seconds = 100 * 3600;
  quiet.stall = 2;
  Ledger warned = quiet;
  warned.releases = 50;
  Ledger struck = quiet;
  struck.losses = 50;
  EXPECT_EQ(checkpoint_every(warned, policy), checkpoint_every(quiet, policy));
  EXPECT_LT(checkpoint_every(struck, policy), checkpoint_every(quiet, policy) / 5);
}

TEST(Pace, TheBoundsHold) {
  const Policy policy;
  Ledger ledger;
  ledger.stall = 0.001;
  EXPECT_EQ(checkpoint_every(ledger, policy), policy.checkpoint_least);
  ledger.stall = 300;
  ledger.seconds = 1e9;
  EXPECT_EQ(checkpoint_every(ledger, policy), policy.checkpoint_most);
}

TEST(Pace, TheNewestStallWeighsMost) {
  Ledger ledger;
  learn_stall(ledger, seconds(10));
  EXPECT_DOUBLE_EQ(ledger.stall, 10);
  learn_stall(ledger, Duration(0));  // the trainer did not say
  EXPECT_DOUBLE_EQ(ledger.stall, 10);
  EXPECT_DOUBLE_EQ(ledger.stalled, 10);
  for (int i = 0; i < 20; ++i) learn_stall(ledger, seconds(2));
  EXPECT_NEAR(ledger.stall, 2, 0.1);
  EXPECT_DOUBLE_EQ(ledger.stalled, 10 + 20 * 2) << "each counts, also one of another machine";
}

TEST(Pace, TheTrainerGetsItAtItsStartAndWhenItMatters) {
  Story story;
  story.train();
  const Duration first = story.state.facts.trainer.advised_interval;
  EXPECT_EQ(first, checkpoint_every(story.state.facts.progress.ledger, story.policy));
  story.sense(CheckpointMade{1, story.policy.checkpoint_stall});
  EXPECT_FALSE(story.did<PaceTrainer>());  // as was assumed
  story.sense(CheckpointMade{2, seconds(200)});
  ASSERT_TRUE(story.did<PaceTrainer>());
  EXPECT_GT(story.did<PaceTrainer>()->checkpoint_every, 2 * first);
  EXPECT_EQ(story.did<PaceTrainer>()->asked, kNever);
}

TEST(Pace, AnInstanceThatWasGoneWithoutAWordIsALoss) {
  Story story;
  Ledger before;
  before.running = true;
  before.losses = 1;
  story.train(before);
  EXPECT_EQ(story.state.facts.progress.ledger.losses, 2U);
  EXPECT_TRUE(story.state.facts.progress.ledger.running);  // now it is ours that runs
}

TEST(Pace, ACrashLosesStepsAndIsNoInterruption) {
  Story story;
  story.train();
  story.sense(TrainerEnded{});
  EXPECT_EQ(story.state.facts.progress.ledger.losses, 1U);
  EXPECT_EQ(interruptions(story.state.facts.progress.ledger), 0U);
  Story taken;
  Ledger before;
  before.running = true;
  taken.train(before);
  EXPECT_EQ(interruptions(taken.state.facts.progress.ledger), 1U) << "its machine was gone";
  taken.sense(NoticeSeen{InterruptionAction::Terminate, taken.now + seconds(110)});
  taken.sense(TrainerEnded{});
  ASSERT_TRUE(taken.did<WriteLedger>());
  EXPECT_EQ(interruptions(taken.did<WriteLedger>()->ledger), 2U)
      << "killed as it did not end in time";
}

TEST(Pace, AnAnnouncedEndIsNone) {
  Story story;
  story.train();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(110)});
  story.sense(CheckpointMade{70});
  story.sense(TrainerEnded{false, true});
  ASSERT_TRUE(story.did<WriteLedger>());
  const Ledger& closed = story.did<WriteLedger>()->ledger;
  EXPECT_EQ(closed.losses, 0U);
  EXPECT_EQ(closed.releases, 1U);
  EXPECT_FALSE(closed.running);
}

TEST(Rebalance, IsWorthACheckpointWhenMuchIsAtRiskAndNeverAStop) {
  Story story;
  story.train();
  story.sense(CheckpointMade{1, seconds(2)});
  story.pass(seconds(1));
  story.sense(RebalanceRecommended{});
  EXPECT_FALSE(story.did<PaceTrainer>());  // a second of work is not worth two of standing still
  story.pass(minutes(20));
  story.sense(RebalanceRecommended{});
  ASSERT_TRUE(story.did<PaceTrainer>());
  EXPECT_EQ(story.did<PaceTrainer>()->asked, story.now);
  EXPECT_EQ(story.stage(), "training");
  EXPECT_FALSE(story.did<StopTrainer>());
}

TEST(Snapshots, PayWhereInterruptionsAreFrequentOrTheInstanceIsDear) {
  const Policy policy;
  Ledger calm;
  calm.seconds = 3600.0 * 24 * 365;
  EXPECT_TRUE(snapshots_pay({}, 0.9, policy));
  EXPECT_TRUE(snapshots_pay({}, 0, policy));
  EXPECT_FALSE(snapshots_pay(calm, 0.1, policy));
}

TEST(InitializationRate, PaysWhereTheMachineIsDear) {
  Policy policy;
  const double one_a10g = 0.5, eight_a100 = 14;
  EXPECT_EQ(initialization_rate(one_a10g, 50, policy), 0U);
  EXPECT_EQ(initialization_rate(eight_a100, 50, policy), 288U) << "what saves most";
  EXPECT_EQ(initialization_rate(20 * eight_a100, 50, policy), 300U) << "EBS has no more";
  EXPECT_NEAR(price_of_rate(300, 50, policy), 0.18, 1e-9);
  EXPECT_EQ(initialization_rate(eight_a100, 16'384, policy), 0U)
      << "nobody waits for as long as all of that takes";
  EXPECT_EQ(initialization_rate(0, 50, policy), 0U) << "a price that is not known";
  EXPECT_EQ(initialization_rate(eight_a100, 0, policy), 0U) << "a size that is not known";
  policy.initialization_rate = 200;
  EXPECT_EQ(initialization_rate(one_a10g, 50, policy), 200U);
  policy.initialization_rate = 0;
  EXPECT_EQ(initialization_rate(eight_a100, 50, policy), 0U);
}

}  // namespace
}  // namespace spotter::decide
