// The GPUs that the job needs: awaited before each start, and a machine without them given back.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

EffectFailed absent() {
  EffectFailed failed;
  failed.failure = Failure::GpusAbsent;
  failed.detail = "7 of 8 GPUs answer";
  return failed;
}

// Up to the question whether they are there.
struct Machine : Story {
  explicit Machine(Ledger ledger = {}, Fleet fleet = {FleetKind::Ec2Fleet, "fleet-1"}) {
    policy.gpus = 8;
    sense(Started{});
    answer(HostLooked{});
    answer(IdentityRead{kMe, "p4d.24xlarge", "us-west-2a", "us-west-2"});
    answer(FleetRead{fleet, 1.0});
    take_volume(ledger);
    pass(seconds(60));
  }
  // Everything is released, in the usual order.
  void release() {
    EXPECT_EQ(stage(), "closing-ledger");
    answer(LedgerWritten{});
    EXPECT_EQ(stage(), "unmounting");
    answer(Unmounted{});
    EXPECT_EQ(stage(), "detaching");
    answer(CallAccepted{});
  }
};

TEST(Gpus, AreSeenBeforeTheCodeIsFetched) {
  Machine story;
  EXPECT_EQ(story.stage(), "awaiting-gpus");
  EXPECT_EQ(story.asked(), "await-gpus");
  story.answer(GpusFound{});
  EXPECT_EQ(story.stage(), "fetching-code");
}

TEST(Gpus, OfAJobThatNeedsNoneAreNotLookedFor) {
  Story story;
  story.train();
  EXPECT_EQ(story.stage(), "training");
}

TEST(Gpus, ThatAreMissingGiveTheMachineBackWithNothingOfTheJobOnIt) {
  Machine story;
  story.answer(absent());
  ASSERT_NE(story.did<WriteLedger>(), nullptr);
  EXPECT_EQ(story.did<WriteLedger>()->ledger.attempts_without_progress, 1U);
  story.release();
  EXPECT_EQ(story.stage(), "giving-back");
  ASSERT_NE(story.did<GiveBackInstance>(), nullptr);
  EXPECT_EQ(story.did<GiveBackInstance>()->instance, kMe);
  story.answer(CallAccepted{});
  story.sense(StopRequested{story.now + seconds(10)});  // EC2 ends it
  EXPECT_EQ(story.asked(), "exit");
}

TEST(Gpus, ADriverThatHangsIsAsGoodAsNone) {
  Machine story;
  EffectFailed hangs;
  hangs.unsettled = true;
  story.answer(hangs);
  story.release();
  EXPECT_EQ(story.stage(), "giving-back");
}

TEST(Gpus, AMachineIsNotGivenBackForAnotherTrouble) {
  Machine story;
  EffectFailed no_memory;
  no_memory.failure = Failure::MountFailed;
  story.answer(no_memory);
  EXPECT_EQ(story.stage(), "blocked");
}

TEST(Gpus, TheMachineIsGivenBackUntilItEnds) {
  Machine story;
  story.answer(absent());
  story.release();
  story.answer(EffectFailed{});  // throttled
  story.wake();
  EXPECT_EQ(story.asked(), "give-back-instance");
  story.answer(CallAccepted{});
  story.wake();
  EXPECT_EQ(story.asked(), "give-back-instance");
}

TEST(Gpus, AMissingPermissionIsForAPerson) {
  Machine story;
  story.answer(absent());
  story.release();
  EffectFailed refused;
  refused.failure = Failure::Refused;
  story.answer(refused);
  EXPECT_EQ(story.stage(), "blocked");
}

TEST(Gpus, OneMachineAfterTheOtherWithoutThemEndsTheJobByItsPolicy) {
  Ledger ledger;
  ledger.attempts_without_progress = 2;
  Machine story(ledger);
  story.answer(absent());
  EXPECT_EQ(story.state.facts.exit.surrender, Surrender::GpusAbsent);
  story.release();
  EXPECT_EQ(story.asked(), "scale-fleet-to-zero");
}

TEST(Gpus, AMachineThatCannotBeCountedIsNotGivenBack) {
  Machine story;
  story.answer(absent());
  EXPECT_EQ(story.stage(), "closing-ledger");
  EffectFailed full;
  full.failure = Failure::MountFailed;
  full.detail = "no space left on device";
  story.answer(full);
  EXPECT_EQ(story.stage(), "blocked");
}

TEST(Gpus, AMachineOfNoFleetIsNobodysToEnd) {
  Machine story({}, Fleet{});
  story.answer(absent());
  EXPECT_EQ(story.stage(), "blocked");
  story.wake();
  EXPECT_EQ(story.asked(), "read-identity") << "its tag may have come";
  story.answer(IdentityRead{kMe, "p4d.24xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{});
  EXPECT_EQ(story.asked(), "survey-storage");
}

TEST(Gpus, ANoticeComesFirst) {
  Machine story;
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + minutes(2)});
  EXPECT_EQ(story.asked(), "abandon");
  EffectFailed given_up;
  given_up.failure = Failure::Abandoned;
  story.answer(given_up);
  story.release();
  EXPECT_EQ(story.stage(), "released");
}

}  // namespace
}  // namespace spotter::decide
