// Letting go of the volume in time: on a notice, and when the agent is told to stop.
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
    story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
    story.sense(TrainerEnded{false, true});
    story.answer(LedgerWritten{});
    story.answer(Unmounted{});
    story.answer(CallAccepted{});
    ASSERT_EQ(story.stage(), "released");
    if (withdrawn) story.sense(NoticeWithdrawn{});
    if (!withdrawn) story.wake();
    EXPECT_EQ(story.asked(), "read-identity");
  }
}

TEST(Stop, ASIGINTLetsGoOfEverythingAndLeaves) {
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

TEST(Release, AnAdoptedTrainerIsToldOfANoticeEvenWhileTheMetadataServiceIsDown) {
  Story story;
  story.sense(Started{});
  HostLooked seen;
  seen.trainer = HostLooked::Trainer::Running;
  seen.mounted = kVolume;
  story.answer(seen);
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
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  story.sense(TrainerEnded{false, true});
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  EXPECT_EQ(story.asked(), "");
  EXPECT_EQ(story.stage(), "detaching");
  story.wake();
  EXPECT_EQ(story.asked(), "detach-volume");
}

const Fleet kGroup{FleetKind::AutoScalingGroup, "group"};

TEST(Release, AGroupThatHoldsTheInstanceIsToldWhenAllIsLetGo) {
  Story story;
  story.train();
  story.state.facts.fleet = kGroup;
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
    if (!held) story.state.facts.fleet = kGroup;
    story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(118), held});
    story.sense(TrainerEnded{false, true});
    story.answer(LedgerWritten{});
    story.answer(Unmounted{});
    story.answer(CallAccepted{});
    EXPECT_EQ(story.stage(), "released");
    EXPECT_EQ(story.did<CompleteLifecycle>(), nullptr);
  }
}

TEST(Release, AGroupThatWasCancelledIsToldThatTheJobIsFinished) {
  for (const bool before : {false, true}) {  // the group's word comes before its own answer
    Story story;
    story.train();
    story.state.facts.fleet = kGroup;
    story.state.facts.done = true;
    story.state.facts.trainer_running = false;
    story.state.facts.mounted = story.state.facts.attached = false;
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
