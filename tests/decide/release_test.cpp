// Releasing the volume in time: on a notice, and when the agent is asked to stop.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

TEST(Release, DetachesOnlyAfterTheCheckpointIsDurable) {
  Story story;
  story.train();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(118)});
  EXPECT_EQ(story.asked(), "stop-trainer");
  story.sense(CheckpointMade{250});
  EXPECT_EQ(story.asked(), "");
  story.sense(TrainerEnded{false, true});
  EXPECT_EQ(story.asked(), "write-ledger");
  EXPECT_EQ(story.did<WriteLedger>()->ledger.newest_step, 250);
  story.answer(LedgerWritten{});
  EXPECT_EQ(story.asked(), "unmount");
  story.answer(Unmounted{});
  EXPECT_EQ(story.asked(), "detach-volume");
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "released");
}

TEST(Release, KillsADeafTrainerInTimeToUnmountAndDetach) {
  Story story;
  story.train();
  const Time deadline = story.now + seconds(60);
  story.sense(NoticeSeen{InterruptionAction::Terminate, deadline});
  story.wake();
  EXPECT_EQ(story.asked(), "kill-trainer");
  EXPECT_LE(story.now, deadline - story.policy.release_reserve);
  story.sense(TrainerEnded{false, true});
  story.answer(LedgerWritten{});
  story.answer(EffectFailed{Failure::Busy});
  EXPECT_EQ(story.stage(), "unmounting") << "a busy mount is tried again, never detached";
  story.wake();
  EXPECT_EQ(story.asked(), "unmount");
}

TEST(Release, NeedsLessTimeWhereCheckpointsAreDurableWhenTheyAreReported) {
  Story story;
  story.train();
  story.sense(CheckpointMade{100, seconds(1)});
  const Time deadline = story.now + seconds(100);
  story.sense(NoticeSeen{InterruptionAction::Terminate, deadline});
  EXPECT_EQ(story.did<StopTrainer>()->usable_until, deadline - story.policy.release_durable);
  EXPECT_LT(story.policy.release_durable, story.policy.release_reserve);
}

// An earlier session may have been killed in an unmount that the kernel has not ended, or that left
// the volume in another mount namespace.
TEST(Release, WhatAnEarlierSessionAttachedIsProvedToBeUnmountedBeforeItIsDetached) {
  Story story;
  story.boot();
  story.survey({held(the_volume(), kMe)});
  EXPECT_EQ(story.asked(), "claim-volume");
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  story.answer(EffectFailed{Failure::Unavailable});
  ASSERT_EQ(story.asked(), "unmount");
  EXPECT_EQ(story.did<Unmount>()->volume, kVolume);
  story.answer(EffectFailed{Failure::Busy});
  EXPECT_EQ(story.stage(), "unmounting");
  story.wake();
  EXPECT_EQ(story.asked(), "unmount");
  story.answer(Unmounted{});
  EXPECT_EQ(story.asked(), "detach-volume");
}

// A person has it mounted elsewhere, or what an earlier session mounted stays busy.
struct Unproven : Story {
  Unproven() {
    boot();
    survey({held(the_volume(), kMe)});
    EXPECT_EQ(asked(), "claim-volume");
  }
  // Each try finds it in use, until then; what is asked for last.
  std::string_view busy_until(Time end) {
    EffectFailed busy{Failure::Busy};
    busy.detail = "mounted on /elsewhere";
    while (stage() == "unmounting" && now < end) {
      answer(busy);
      if (stage() != "unmounting") break;
      EXPECT_FALSE(state.facts.holding.released) << "nothing says that it is released";
      pass(seconds(14));
      wake();
    }
    if (stage() == "unmounting") answer(busy);
    return stage();
  }
};

TEST(Unmounted, UnprovenItStaysAttachedAndTheSessionLeavesInTime) {
  for (const bool noticed : {false, true}) {
    Unproven story;
    const Time by = story.now + seconds(60);
    if (noticed) story.sense(NoticeSeen{InterruptionAction::Terminate, by + seconds(60)});
    story.sense(StopRequested{by});
    story.answer(EffectFailed{Failure::Unavailable});
    ASSERT_EQ(story.stage(), "unmounting");
    EXPECT_EQ(story.busy_until(by), "leaving");
    EXPECT_GE(story.now, by) << "until then it is tried";
    EXPECT_TRUE(story.state.facts.holding.attached);
  }
}

TEST(Unmounted, UnprovenItIsTakenUpAgainWhereTheMachineLivesOn) {
  Unproven story;
  const Time deadline = story.now + seconds(100);
  story.sense(NoticeSeen{InterruptionAction::Terminate, deadline});
  story.answer(EffectFailed{Failure::Unavailable});
  EXPECT_EQ(story.busy_until(deadline), "unmounting");
  story.wake();
  EXPECT_EQ(story.busy_until(deadline + seconds(120)), "identifying");
  EXPECT_GE(story.now, deadline + story.policy.spared_after);
  EXPECT_FALSE(story.state.facts.exit.notice);
}

TEST(Released, OfACapacityBlockItStaysSoUntilTheBlockHasEnded) {
  Story story;
  story.train();
  NoticeSeen notice{InterruptionAction::Terminate, story.now + seconds(120)};
  notice.leeway = minutes(30);
  const Time end = notice.deadline + notice.leeway;
  story.sense(notice);
  story.sense(TrainerEnded{false, true});
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  while (story.stage() != "released") story.answer(CallAccepted{});
  EXPECT_EQ(story.state.wake_at, end + story.policy.spared_after)
      << "EC2 may let it run until then, and the volume is the next machine's";
  story.wake();
  EXPECT_EQ(story.stage(), "identifying");
}

TEST(Unmounted, UnprovenItIsTakenUpAgainWhereTheNoticeIsWithdrawn) {
  Story story;
  story.train();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  story.sense(TrainerEnded{false, true});
  story.answer(LedgerWritten{});
  ASSERT_EQ(story.stage(), "unmounting");
  story.sense(NoticeWithdrawn{});
  story.answer(EffectFailed{Failure::Busy});
  EXPECT_EQ(story.stage(), "identifying");
}

TEST(Unmounted, UnprovenItIsForAPersonWhereTheSessionOnlyLooksAgain) {
  Unproven story;
  story.answer(CallAccepted{});
  SeenVolume ours = held(the_volume(), kMe);
  ours.generation = story.state.facts.holding.generation;
  story.survey({ours});
  while (story.asked() == "find-device") story.answer(EffectFailed{Failure::DeviceAbsent});
  ASSERT_EQ(story.stage(), "unmounting");
  EXPECT_EQ(story.busy_until(story.now + minutes(60)), "blocked");
  const std::string words = describe(story.state, story.policy);
  EXPECT_NE(words.find("/elsewhere"), words.npos) << words;
}

TEST(Release, WhatThisSessionAttachedAndNeverMountedIsDetachedAtOnce) {
  Story story;
  story.boot();
  story.survey({the_volume()});
  story.answer(CallAccepted{});
  story.survey({held(the_volume(), kMe)});
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  story.answer(EffectFailed{Failure::Unavailable});
  EXPECT_EQ(story.asked(), "detach-volume");
}

TEST(Release, ANearerDeadlineReachesTheTrainer) {
  Story story;
  story.train();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(118)});
  EXPECT_FALSE(story.did<StopTrainer>()->signalled);
  const Time nearer = story.now + seconds(30);
  story.sense(NoticeSeen{InterruptionAction::Terminate, nearer});
  EXPECT_EQ(story.asked(), "stop-trainer");
  EXPECT_TRUE(story.did<StopTrainer>()->signalled);
  EXPECT_EQ(story.did<StopTrainer>()->deadline, nearer);
  EXPECT_LT(story.did<StopTrainer>()->usable_until, nearer);
  story.sense(NoticeSeen{InterruptionAction::Terminate, nearer + seconds(60)});
  EXPECT_EQ(story.asked(), "") << "what was promised is kept";
}

TEST(Release, ANoticeOfFiveSecondsStillLeavesTimeToDetach) {
  Story story;
  story.train();
  const Time deadline = story.now + seconds(5);
  story.sense(NoticeSeen{InterruptionAction::Terminate, deadline});
  story.wake();
  EXPECT_EQ(story.asked(), "kill-trainer");
  EXPECT_LT(story.now, deadline - seconds(1));
}

TEST(Release, ANoticeDuringAMountGivesItUpAndUnmountsWhatMayBeMounted) {
  Story story;
  story.boot();
  story.claim_volume();
  story.answer(DeviceFound{"/dev/nvme1n1"});
  DiskInspected disk;
  disk.matches = true;
  story.answer(disk);
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  EXPECT_EQ(story.asked(), "abandon");
  story.answer(EffectFailed{Failure::Abandoned});
  EXPECT_EQ(story.asked(), "unmount");
}

TEST(Release, AfterANoticeNothingLongIsBegun) {
  Story story;
  story.boot();
  story.sense(NoticeSeen{InterruptionAction::Stop, story.now + seconds(100)});
  story.survey({the_volume("us-west-2b")});
  EXPECT_EQ(story.stage(), "released");
  EXPECT_EQ(story.asked(), "");
}

TEST(Release, AWithdrawnNoticeAndASparedInstanceTakeUpWorkAgain) {
  for (const bool withdrawn : {true, false}) {
    Story story;
    story.train();
    story.unmount_on_notice(seconds(100));
    story.answer(CallAccepted{});
    ASSERT_EQ(story.stage(), "released");
    if (withdrawn) story.sense(NoticeWithdrawn{});
    if (!withdrawn) story.wake();
    EXPECT_EQ(story.asked(), "read-identity");
  }
}

TEST(Stop, ASIGINTReleasesEverythingAndLeaves) {
  Story story;
  story.train();
  story.sense(StopRequested{story.now + seconds(100)});
  EXPECT_EQ(story.asked(), "stop-trainer");
  story.sense(TrainerEnded{false, true});
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "exit");
  EXPECT_EQ(story.stage(), "leaving");
}

TEST(Release, AnAdoptedTrainerGetsANoticeEvenWhileTheMetadataServiceIsDown) {
  Story story;
  story.adopt();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  story.answer(EffectFailed{});
  EXPECT_EQ(story.asked(), "read-ledger");
  story.answer(LedgerRead{});
  EXPECT_EQ(story.asked(), "stop-trainer");
}

TEST(Release, WhoUsedTheVolumeForLessThanTheBoundKeepsItUntilOthersCanSeeIt) {
  Story story;
  story.train();
  story.now -= seconds(57);  // the claim is 3 s old, the bound 10 s
  story.unmount_on_notice(seconds(100));
  EXPECT_EQ(story.asked(), "");
  EXPECT_EQ(story.stage(), "detaching");
  story.wake();
  EXPECT_EQ(story.asked(), "detach-volume");
}

// A look that was begun just before all could see the claim may lead to a commit yet.
TEST(Release, WhoUsedTheVolumeKeepsItForTheTimeOfACommitLonger) {
  Story story;
  story.train();
  story.now -= seconds(48);  // the claim is 12 s old, the bound 10 s
  const Time claimed = story.now - seconds(12);
  story.unmount_on_notice(seconds(100));
  ASSERT_EQ(story.asked(), "");
  story.wake();
  EXPECT_EQ(story.asked(), "detach-volume");
  EXPECT_EQ(story.now - claimed, story.policy.consistency_bound + 2 * story.policy.commit_call);
}

const Fleet kGroup{FleetKind::AutoScalingGroup, "group"};

TEST(Release, AGroupThatHoldsTheInstanceGoesOnWhenAllIsReleased) {
  Story story;
  story.train();
  story.state.facts.identity.fleet = kGroup;
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(118), true});
  story.sense(TrainerEnded{false, true});
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  EXPECT_EQ(story.did<CompleteLifecycle>(), nullptr) << "the volume is still attached";
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "released");
  ASSERT_NE(story.did<CompleteLifecycle>(), nullptr);
  EXPECT_EQ(story.did<CompleteLifecycle>()->fleet, kGroup);
  EXPECT_EQ(story.did<CompleteLifecycle>()->instance, kMe);
}

TEST(Release, ASpotNoticeAndAnotherFleetHaveNothingToComplete) {
  for (const bool held : {false, true}) {
    Story story;
    story.train();
    if (!held) story.state.facts.identity.fleet = kGroup;
    story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(118), held});
    story.sense(TrainerEnded{false, true});
    story.answer(LedgerWritten{});
    story.answer(Unmounted{});
    story.answer(CallAccepted{});
    EXPECT_EQ(story.stage(), "released");
    EXPECT_EQ(story.did<CompleteLifecycle>(), nullptr);
  }
}

TEST(Release, AGroupThatWasCancelledGoesOnWhenTheJobIsFinished) {
  for (const bool before : {false, true}) {  // the group's word comes before its own answer
    Story story;
    story.train();
    story.state.facts.identity.fleet = kGroup;
    story.state.facts.exit.done = true;
    story.state.facts.trainer.running = false;
    story.state.facts.holding.mounted = story.state.facts.holding.attached = false;
    story.state.stage = CancellingFleet{};
    story.state.awaited = {story.state.incarnation, ++story.state.effects_made};
    const NoticeSeen taken_out{InterruptionAction::Terminate, story.now + seconds(118), true};
    if (before) story.sense(taken_out);
    EXPECT_EQ(story.asked().find("complete-lifecycle"), std::string::npos);
    story.answer(CallAccepted{});
    EXPECT_EQ(story.stage(), "finished");
    if (!before) story.sense(taken_out);
    EXPECT_EQ(story.asked(), "complete-lifecycle");
    story.state.stage = GaveUp{};
    story.sense(taken_out);
    EXPECT_EQ(story.asked(), "complete-lifecycle");
  }
}

}  // namespace
}  // namespace spotter::decide
