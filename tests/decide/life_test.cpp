// The core's promises, told as stories.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

EffectFailed failed(Failure failure, bool unsettled = false) { return {failure, unsettled, {}}; }

TEST(Storage, AttachesTheTaggedVolumeClaimsItAndOnlyThenLooksAtTheDisk) {
  Story story;
  story.boot();
  EXPECT_EQ(story.asked(), "survey-storage");
  story.survey({the_volume()});
  ASSERT_TRUE(story.did<AttachVolume>());
  EXPECT_EQ(story.did<AttachVolume>()->volume, kVolume);
  story.answer(CallAccepted{});
  story.survey({held(the_volume(), kMe)});
  ASSERT_TRUE(story.did<ClaimVolume>());
  EXPECT_EQ(story.did<ClaimVolume>()->generation, 1U);
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "survey-storage") << "the claim is read back";
  story.survey({held(the_volume(), kMe)});
  EXPECT_EQ(story.stage(), "waiting") << "not visible yet: nothing is mounted";
  SeenVolume claimed = held(the_volume(), kMe);
  claimed.generation = 1;
  story.survey({claimed});
  EXPECT_EQ(story.asked(), "find-device");
}

TEST(Storage, WaitsForAVolumeInOtherHandsAndNeverForcesIt) {
  Story story;
  story.boot();
  story.survey({held(the_volume(), "i-other")});
  EXPECT_EQ(story.stage(), "waiting");
  EXPECT_EQ(story.asked(), "");
  story.survey({held(the_volume(), "i-other", HolderState::Gone)});
  EXPECT_EQ(story.asked(), "") << "EC2 lets go of a terminated holder's volume by itself";
  story.survey({held(the_volume(), "i-other", HolderState::Stopped)});
  EXPECT_EQ(story.asked(), "detach-volume") << "a stopped one keeps it for ever";
}

TEST(Storage, TwoVolumesWithTheTagBlockAndNothingIsTouched) {
  Story story;
  story.boot();
  SeenVolume second = the_volume();
  second.id = "vol-9";
  story.survey({the_volume(), second});
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::TwoVolumes);
  EXPECT_EQ(story.asked(), "");
  story.wake();
  EXPECT_EQ(story.asked(), "survey-storage");
}

TEST(Storage, ACandidateIsNotASecondVolume) {
  Story story;
  story.boot();
  story.survey({the_volume(), the_copy(Role::Candidate)});
  EXPECT_EQ(story.asked(), "attach-volume");
}

TEST(Storage, ABlankDiskIsFormattedOnlyWhenItIsMarkedAsOursAndMadeFromNothing) {
  for (const bool marked : {false, true}) {
    for (const bool from_snapshot : {false, true}) {
      Story story;
      story.boot();
      SeenVolume volume = the_volume();
      volume.ours_to_format = marked;
      if (from_snapshot) volume.from = "snap-of-somebody";
      story.survey({volume});
      story.answer(CallAccepted{});
      story.survey({held(volume, kMe)});
      story.answer(CallAccepted{});
      volume.generation = 1;
      story.survey({held(volume, kMe)});
      story.answer(DeviceFound{"/dev/nvme1n1"});
      DiskInspected blank;
      blank.blank = true;
      story.answer(blank);
      if (marked && !from_snapshot) {
        EXPECT_EQ(story.asked(), "make-filesystem");
      } else {
        EXPECT_EQ(story.stage(), "blocked");
        EXPECT_EQ(story.asked(), "");
      }
    }
  }
}

TEST(Storage, AForeignFileSystemBlocks) {
  Story story;
  story.boot();
  story.survey({the_volume()});
  story.answer(CallAccepted{});
  story.survey({held(the_volume(), kMe)});
  story.answer(CallAccepted{});
  SeenVolume claimed = held(the_volume(), kMe);
  claimed.generation = 1;
  story.survey({claimed});
  story.answer(DeviceFound{"/dev/nvme1n1"});
  DiskInspected foreign;
  foreign.found = "LVM2_member";
  story.answer(foreign);
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).detail.view(), "LVM2_member");
}

TEST(Storage, ALostAnswerIsSettledByALookAfterTheConsistencyBound) {
  Story story;
  story.boot();
  story.survey({the_volume()});
  const Time asked_at = story.now;
  story.answer(failed(Failure::Unavailable, true));
  EXPECT_EQ(story.stage(), "waiting");
  EXPECT_GE(story.state.wake_at - asked_at, story.policy.consistency_bound);
  story.survey({held(the_volume(), kMe)});
  EXPECT_EQ(story.asked(), "claim-volume") << "it was attached all the same";
}

TEST(Answers, OfAQuestionThatIsNotAwaitedChangeNothing) {
  Story story;
  story.boot();
  const EffectId old = story.state.awaited;
  story.survey({the_volume()});
  step(story.state, {story.now, old, StorageSurveyed{}}, story.policy, story.effects);
  EXPECT_EQ(story.stage(), "attaching");
  step(story.state, {story.now, {7, 3}, CallAccepted{}}, story.policy, story.effects);
  EXPECT_EQ(story.stage(), "attaching") << "an answer to an earlier incarnation";
}

TEST(Training, CountsTheAttemptBeforeItBegins) {
  Story story;
  story.train();
  EXPECT_EQ(story.stage(), "training");
  EXPECT_EQ(story.state.facts.ledger.attempts_without_progress, 1U);
  story.sense(CheckpointMade{100});
  EXPECT_EQ(story.state.facts.ledger.attempts_without_progress, 0U);
  ASSERT_TRUE(story.did<WriteLedger>());
  EXPECT_EQ(story.did<WriteLedger>()->ledger.newest_step, 100);
}

TEST(Training, ACrashIsTriedAgainThenScalesToZeroButNeverCancels) {
  Story story;
  story.train();
  for (int attempt = 2; attempt <= 3; ++attempt) {
    story.sense(TrainerEnded{});
    EXPECT_EQ(story.stage(), "waiting");
    story.wake();
    EXPECT_EQ(story.asked(), "write-ledger");
    story.answer(LedgerWritten{});
    story.answer(TrainerStarted{});
  }
  story.sense(TrainerEnded{});
  EXPECT_EQ(story.stage(), "closing-account");
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "scale-fleet-to-zero");
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "gave-up");
}

TEST(Training, ASpentBudgetStopsTheTrainerWithACheckpoint) {
  Story story;
  story.policy.dollars_limit = 2;
  story.train();
  story.pass(hours(3));
  story.sense(Woke{});
  EXPECT_NE(story.asked().find("stop-trainer"), std::string::npos);
  story.sense(TrainerEnded{false, true});
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "scale-fleet-to-zero");
  EXPECT_EQ(story.state.facts.surrender, Surrender::DollarsSpent);
}

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
  story.answer(failed(Failure::Busy));
  EXPECT_EQ(story.stage(), "unmounting") << "a busy mount is tried again, never detached";
  story.wake();
  EXPECT_EQ(story.asked(), "unmount");
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
  story.survey({the_volume()});
  story.answer(CallAccepted{});
  story.survey({held(the_volume(), kMe)});
  story.answer(CallAccepted{});
  SeenVolume claimed = held(the_volume(), kMe);
  claimed.generation = 1;
  story.survey({claimed});
  story.answer(DeviceFound{"/dev/nvme1n1"});
  DiskInspected disk;
  disk.matches = true;
  story.answer(disk);
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  EXPECT_EQ(story.asked(), "abandon");
  story.answer(failed(Failure::Abandoned));
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
    EXPECT_EQ(story.asked(), "survey-storage");
  }
}

TEST(Finish, MarksTheResultLeavesNothingAndCancelsTheFleetLast) {
  Story story;
  story.train();
  story.sense(TrainerEnded{true, false});
  EXPECT_EQ(story.asked(), "write-ledger");
  EXPECT_TRUE(story.did<WriteLedger>()->ledger.done);
  story.answer(LedgerWritten{});
  EXPECT_EQ(story.asked(), "mark-done");
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "unmount");
  story.answer(Unmounted{});
  EXPECT_EQ(story.asked(), "detach-volume");
  story.answer(CallAccepted{});
  SeenVolume done = the_volume();
  done.done = true;
  story.answer(StorageSurveyed{{{done}, {the_snapshot(SnapshotState::Completed)}}});
  EXPECT_EQ(story.asked(), "delete-snapshot");
  story.answer(CallAccepted{});
  story.answer(StorageSurveyed{{{done}, {}}});
  ASSERT_TRUE(story.did<CancelFleet>());
  EXPECT_EQ(story.did<CancelFleet>()->fleet.id.view(), "sfr-1");
  story.answer(failed(Failure::Unavailable));
  story.wake();
  EXPECT_EQ(story.asked(), "cancel-fleet") << "until it succeeds";
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "finished");
}

TEST(Finish, ATrainerThatFinishesInTheVerySecondOfTheNoticeIsDone) {
  Story story;
  story.train();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  story.sense(TrainerEnded{true, false});
  story.answer(LedgerWritten{});
  EXPECT_EQ(story.asked(), "mark-done");
}

TEST(Finish, AnInstanceThatFindsTheJobDoneCancelsAndMovesNoVolume) {
  Story story;
  story.boot("us-west-2b");
  SeenVolume done = the_volume("us-west-2a");
  done.done = true;
  story.survey({done});
  EXPECT_EQ(story.asked(), "survey-storage");
  story.answer(StorageSurveyed{{{done}, {}}});
  EXPECT_EQ(story.asked(), "cancel-fleet");
}

// The volume is in zone a, we are in zone b: up to a copy in hand that was verified.
void prove_copy(Story& story) {
  story.boot("us-west-2b");
  story.survey({the_volume()});
  EXPECT_EQ(story.asked(), "create-snapshot");
  story.answer(SnapshotStarted{"snap-1"});
  story.survey({the_volume()}, {the_snapshot(SnapshotState::Pending)});
  EXPECT_EQ(story.stage(), "waiting");
  story.survey({the_volume()}, {the_snapshot(SnapshotState::Completed)});
  EXPECT_EQ(story.asked(), "create-volume");
  story.answer(VolumeCreated{kCopy});
  story.survey({the_volume(), the_copy(Role::Candidate)});
  ASSERT_TRUE(story.did<AttachVolume>());
  EXPECT_EQ(story.did<AttachVolume>()->volume, kCopy);
  story.answer(CallAccepted{});
  story.survey({the_volume(), held(the_copy(Role::Candidate), kMe)});
  EXPECT_EQ(story.asked(), "find-device");
}

TEST(Migration, DeletesTheOldVolumeOnlyAfterTheCopyIsVerifiedAndTheBoundHasPassed) {
  Story story;
  prove_copy(story);
  story.answer(DeviceFound{"/dev/nvme1n1"});
  DiskInspected disk;
  disk.matches = true;
  story.answer(disk);
  ASSERT_TRUE(story.did<Mount>());
  EXPECT_TRUE(story.did<Mount>()->read_only) << "nothing writes to a copy before the commit";
  story.answer(Mounted{});
  Ledger ledger;
  ledger.newest_step = 250;
  story.answer(LedgerRead{ledger});
  story.answer(CheckpointsVerified{250, 0});
  story.answer(StorageSurveyed{{{the_volume(), held(the_copy(Role::Candidate), kMe)}, {}}});
  EXPECT_EQ(story.asked(), "mark-verified");
  story.answer(CallAccepted{});
  const Time attested = story.now;
  const SeenVolume copy = held(the_copy(Role::Verified), kMe);
  story.answer(StorageSurveyed{{{the_volume(), copy}, {}}});
  EXPECT_EQ(story.stage(), "waiting");
  story.survey({the_volume(), copy});
  ASSERT_TRUE(story.did<DeleteVolume>());
  EXPECT_EQ(story.did<DeleteVolume>()->volume, kVolume);
  EXPECT_GE(story.now - attested, story.policy.consistency_bound);
  story.answer(CallAccepted{});
  const Time committed = story.now;
  while (story.asked() != "promote-volume") {
    ASSERT_FALSE(story.did<Mount>());
    if (story.stage() == "waiting") story.wake();
    story.answer(StorageSurveyed{{{copy}, {the_snapshot(SnapshotState::Completed)}}});
  }
  EXPECT_GE(story.now - committed, 2 * story.policy.consistency_bound);
  story.answer(CallAccepted{});
  SeenVolume crowned = copy;
  crowned.role = Role::State;
  crowned.discoverable = true;
  story.survey({crowned});
  EXPECT_EQ(story.asked(), "claim-volume");
}

TEST(Migration, ACopyWithoutTheNewestCheckpointNeverReplacesItsParent) {
  Story story;
  prove_copy(story);
  story.answer(DeviceFound{"/dev/nvme1n1"});
  DiskInspected disk;
  disk.matches = true;
  story.answer(disk);
  story.answer(Mounted{});
  Ledger ledger;
  ledger.newest_step = 250;
  story.answer(LedgerRead{ledger});
  story.answer(CheckpointsVerified{200, 1});
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::CopyDamaged);
}

TEST(Migration, AnOriginalInUseAgainMakesTheCopyStaleAndItIsDropped) {
  Story story;
  prove_copy(story);
  story.answer(DeviceFound{"/dev/nvme1n1"});
  DiskInspected disk;
  disk.matches = true;
  story.answer(disk);
  story.answer(Mounted{});
  story.answer(LedgerRead{});
  story.answer(CheckpointsVerified{});
  const SeenVolume copy = held(the_copy(Role::Candidate), kMe);
  story.answer(StorageSurveyed{{{held(the_volume(), "i-other"), copy}, {}}});
  EXPECT_EQ(story.asked(), "unmount");
  story.answer(Unmounted{});
  EXPECT_EQ(story.asked(), "detach-volume");
  EXPECT_EQ(story.did<DetachVolume>()->volume, kCopy);
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "survey-storage");
}

TEST(Migration, ACommitLostToAnotherInstanceGoesToTheLowestId) {
  Story story;
  story.boot("us-west-2b");
  SeenVolume winner = held(the_copy(Role::Verified), "i-other");
  winner.id = "vol-0";
  const SeenVolume mine = held(the_copy(Role::Verified), kMe);
  while (!story.did<Unmount>()) story.survey({winner, mine});
  story.answer(Unmounted{});
  ASSERT_TRUE(story.did<DetachVolume>());
  EXPECT_EQ(story.did<DetachVolume>()->volume, kCopy);
}

TEST(Migration, AVerifiedCopyWhoseHolderDiedIsCrownedFromAnyZone) {
  Story story;
  story.boot("us-west-2a");
  const SeenVolume orphan = held(the_copy(Role::Verified), "i-dead", HolderState::Gone);
  while (!story.did<PromoteVolume>()) story.survey({orphan});
  EXPECT_EQ(story.did<PromoteVolume>()->volume, kCopy);
}

TEST(Migration, TheSnapshotGoesAfterTheFirstDurableCheckpoint) {
  Story story;
  story.train();
  EXPECT_EQ(story.asked(), "");
  story.sense(CheckpointMade{10});
  story.wake();
  EXPECT_NE(story.asked().find("survey-storage"), std::string::npos);
  SeenVolume mine = held(the_volume(), kMe);
  story.answer(StorageSurveyed{{{mine}, {the_snapshot(SnapshotState::Completed)}}});
  EXPECT_EQ(story.asked(), "delete-snapshot");
  EXPECT_EQ(story.stage(), "training");
}

TEST(Crash, ARestartedAgentAdoptsTheRunningTrainer) {
  Story story;
  story.sense(Started{});
  HostLooked seen;
  seen.trainer = HostLooked::Trainer::Running;
  seen.mounted = kVolume;
  story.answer(seen);
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{});
  EXPECT_EQ(story.asked(), "read-ledger");
  story.answer(LedgerRead{});
  EXPECT_EQ(story.stage(), "training");
}

TEST(Crash, ARestartedAgentFindsThatTheTrainerFinishedMeanwhile) {
  Story story;
  story.sense(Started{});
  HostLooked seen;
  seen.trainer = HostLooked::Trainer::Ended;
  seen.ended.success = true;
  seen.mounted = kVolume;
  story.answer(seen);
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{});
  story.survey({held(the_volume(), kMe)});
  story.answer(CallAccepted{});
  SeenVolume claimed = held(the_volume(), kMe);
  claimed.generation = 1;
  story.survey({claimed});
  story.mount_and_read();
  EXPECT_EQ(story.asked(), "write-ledger");
  EXPECT_TRUE(story.did<WriteLedger>()->ledger.done);
}

TEST(Crash, AnAdoptedTrainerThatFailsAtOnceIsNotForgotten) {
  Story story;
  story.sense(Started{});
  HostLooked seen;
  seen.trainer = HostLooked::Trainer::Running;
  seen.mounted = kVolume;
  story.answer(seen);
  story.sense(TrainerEnded{});
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{});
  EXPECT_EQ(story.asked(), "survey-storage");
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

TEST(Blocked, TooLongEndsTheCostNotTheFleet) {
  Story story;
  story.policy.then = FailurePolicy::Cancel;
  story.boot();
  story.survey({});
  while (story.stage() == "blocked") {
    story.wake();
    if (story.asked() == "survey-storage") story.survey({});
  }
  EXPECT_EQ(story.asked(), "scale-fleet-to-zero");
}

}  // namespace
}  // namespace spotter::decide
