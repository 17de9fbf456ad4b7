// Finds the fleet of this instance. EC2 shows it by tags that come after the instance.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

const FleetRead kNone;
const FleetRead kFleet{{FleetKind::SpotFleet, "sfr-1"}, 1.0};

void boot(Story& story, const FleetRead& first) {
  story.sense(Started{});
  story.answer(HostLooked{});
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(first);
}

// Leads to an instance that finds the job done: nothing else to do but to end the fleet.
void find_done(Story& story) {
  SeenVolume done = the_volume();
  done.done = true;
  story.survey({done});
  while (story.stage() != "tidying") {
    if (story.state.awaited)
      story.answer(story.stage() == "unmounting" ? Happening(Unmounted{}) : CallAccepted{});
    else
      story.wake();
  }
  while (story.stage() == "tidying") {
    if (story.state.awaited)
      story.answer(StorageSurveyed{{{done}, {}}});
    else
      story.wake();
  }
}

TEST(LateFleet, ATagThatIsNotShownAtTheStartIsAskedForAtTheEndAndTheFleetCancelled) {
  Story story;
  story.policy.fleet_tags = hours(1);
  boot(story, kNone);
  EXPECT_EQ(story.asked(), "survey-storage") << "the work does not wait for it";
  find_done(story);
  EXPECT_EQ(story.asked(), "read-fleet");
  story.answer(kNone);
  EXPECT_EQ(story.stage(), "cancelling-fleet") << "it may come yet";
  story.wake();
  EXPECT_EQ(story.asked(), "read-fleet");
  story.answer(kFleet);
  ASSERT_TRUE(story.did<CancelFleet>());
  EXPECT_EQ(story.did<CancelFleet>()->fleet.id.view(), "sfr-1");
}

// The fleet starts another in its place, but an idle machine costs until a person looks.
TEST(RefusedFleet, AMachineThatMayNotEndItShutsDown) {
  Story story;
  boot(story, kFleet);
  find_done(story);
  for (std::uint32_t i = 0; i < story.policy.refusals; ++i) {
    ASSERT_TRUE(story.did<CancelFleet>());
    EXPECT_FALSE(story.did<CancelFleet>()->or_shut_down) << "the right may only be late";
    story.answer(EffectFailed{Failure::Refused});
    story.wake();
  }
  EXPECT_TRUE(story.did<CancelFleet>()->or_shut_down);
}

TEST(RefusedFleet, WhoMayNotEvenReadItIsGivenBack) {
  Story story;
  boot(story, kNone);
  story.policy.fleet_tags = hours(1);
  find_done(story);
  for (std::uint32_t i = 0; i < story.policy.refusals; ++i) {
    EXPECT_EQ(story.asked(), "read-fleet");
    story.answer(EffectFailed{Failure::Refused});
    story.wake();
  }
  EXPECT_TRUE(story.did<GiveBackInstance>());
}

TEST(RefusedFleet, OnlyRefusalsInARowCount) {
  Story story;
  boot(story, kFleet);
  find_done(story);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(story.did<CancelFleet>()->or_shut_down);
    story.answer(EffectFailed{i % 3 == 0 ? Failure::Unavailable : Failure::Refused});
    story.wake();
  }
}

// A right that is missing is waited for, once: not by each machine that the fleet starts.
TEST(RefusedFleet, WhoComesAfterAMachineThatShutDownHardlyWaits) {
  for (const bool shut_down : {false, true}) {
    Story story;
    FleetRead read = kFleet;
    read.shut_down = shut_down;
    boot(story, read);
    const Time booted = story.now;
    while (story.stage() != "scaling-to-zero")
      story.state.awaited ? story.answer(EffectFailed{Failure::Refused}) : story.wake();
    EXPECT_EQ(story.state.facts.exit.surrender, Surrender::BlockedTooLong);
    const Duration limit = shut_down ? story.policy.blocked_again : story.policy.blocked_limit;
    EXPECT_GE(story.now - booted, limit);
    EXPECT_LT(story.now - booted, 2 * limit);
  }
}

// Its counts begin at 0 for a person who raises the target again, not for the fleet.
TEST(RefusedFleet, WhatWasGivenUpIsNotTrainedByTheNextMachine) {
  for (const bool shut_down : {false, true}) {
    Story story;
    FleetRead read = kFleet;
    read.shut_down = shut_down;
    boot(story, read);
    story.claim_volume();
    story.mount();
    Ledger ledger;
    ledger.given_up = true;
    story.answer(LedgerRead{ledger});
    EXPECT_EQ(story.asked(), shut_down ? "write-ledger" : "verify-checkpoints");
    if (shut_down) {
      EXPECT_TRUE(story.did<WriteLedger>()->ledger.given_up);
    } else {
      EXPECT_FALSE(story.state.facts.progress.ledger.given_up);
    }
  }
}

TEST(LateFleet, AfterTwoMinutesOfNoneThereIsNone) {
  Story story;
  boot(story, kNone);
  find_done(story);
  while (story.stage() == "cancelling-fleet") {
    if (story.state.awaited)
      story.answer(kNone);
    else
      story.wake();
  }
  EXPECT_EQ(story.stage(), "finished");
  EXPECT_GE(story.now - story.state.facts.identity.fleet_asked_at, story.policy.fleet_tags);
}

// Seed 890001120 of --bucket: the machine stood still, and its fleet was never ended.
TEST(LateFleet, AnAnswerThatIsOldDoesNotSayThatThereIsNone) {
  Story story;
  story.policy.storage = StorageKind::Share;
  boot(story, kNone);
  story.wake();
  ASSERT_EQ(story.asked(), "read-fleet");
  story.pass(minutes(15));
  story.answer(kNone);
  EXPECT_FALSE(story.state.facts.identity.fleet_known);
  story.wake();
  EXPECT_EQ(story.asked(), "read-fleet");
  story.answer(kNone);
  EXPECT_TRUE(story.state.facts.identity.fleet_known);
}

// A group with several types launches by a fleet of type instant; its own tag may come later.
TEST(LateFleet, AFleetThatLaunchesOnceMayBeOneOfAGroup) {
  Story story;
  story.policy.fleet_tags = hours(1);
  FleetRead inner{{FleetKind::Ec2Fleet, "fleet-1"}, 1.0};
  inner.instant = true;
  boot(story, inner);
  find_done(story);
  story.answer(inner);
  EXPECT_EQ(story.stage(), "cancelling-fleet");
  story.wake();
  story.answer(FleetRead{{FleetKind::AutoScalingGroup, "training"}, 1.0});
  ASSERT_TRUE(story.did<CancelFleet>());
  EXPECT_EQ(story.did<CancelFleet>()->fleet.id.view(), "training");
}

TEST(LateFleet, AFleetThatLaunchesOnceAndIsNoGroupsIsTheJobs) {
  Story story;
  FleetRead own{{FleetKind::Ec2Fleet, "fleet-1"}, 1.0};
  own.instant = true;
  boot(story, own);
  find_done(story);
  while (!story.did<CancelFleet>()) {
    if (story.state.awaited)
      story.answer(own);
    else
      story.wake();
  }
  EXPECT_EQ(story.did<CancelFleet>()->fleet.id.view(), "fleet-1");
}

TEST(LateFleet, IsAskedForAgainWhileTheTrainerRuns) {
  Story story;
  boot(story, kNone);
  story.take_volume({});
  story.answer(CodeFetched{});
  story.answer(LedgerWritten{});
  story.answer(TrainerStarted{});
  ASSERT_EQ(story.stage(), "training");
  while (!story.state.awaited) story.wake();
  EXPECT_TRUE(story.did<ReadFleet>());
  const Time next = story.state.wake_at;
  story.answer(EffectFailed{});
  EXPECT_EQ(story.state.wake_at, next) << "nor does a failure delay what else is due";
  while (!story.state.awaited) story.wake();
  story.answer(kFleet);
  EXPECT_TRUE(story.state.facts.identity.fleet_known);
  EXPECT_EQ(story.stage(), "training");
}

TEST(LateFleet, AShareIsNotUsedBeforeItIsKnownWhoElseMay) {
  Story story;
  story.policy.storage = StorageKind::Share;
  boot(story, kNone);
  EXPECT_EQ(std::get<Waiting>(story.state.stage).why, Wait::FleetUnseen);
  story.wake();
  EXPECT_EQ(story.asked(), "read-fleet");
  FleetRead read = kFleet;
  read.untagged = 1;  // launched before, of the same image, and perhaps of the same fleet
  story.answer(read);
  EXPECT_EQ(std::get<Waiting>(story.state.stage).why, Wait::FleetUnseen);
  while (story.stage() != "preparing") {
    if (story.state.awaited)
      story.answer(read);
    else
      story.wake();
  }
  EXPECT_GE(story.now - story.state.facts.identity.fleet_asked_at, story.policy.fleet_tags)
      << "by then its tags would be shown";
}

TEST(LateFleet, OneThatJobYamlNamesIsKnownAtOnce) {
  Story story;
  story.policy.storage = StorageKind::Share;
  story.policy.fleet = {FleetKind::SpotFleet, "sfr-2"};
  boot(story, kNone);
  EXPECT_EQ(story.stage(), "preparing");
  EXPECT_EQ(story.state.facts.identity.fleet.id.view(), "sfr-2");
}

}  // namespace
}  // namespace spotter::decide
