// The end of a job: the result is durable, nothing is left behind, the fleet is cancelled last.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

// The copy of kVolume, made by a move, that is the job's volume by now.
SeenVolume the_moved_volume() {
  SeenVolume volume = the_copy(Role::State, 1);
  volume.discoverable = true;
  volume.lineage = kVolume;
  volume.moves = 1;
  return volume;
}

void tidy_until_quiet(Story& story, const SeenVolume& done) {
  for (int i = 0; i < 100 && story.stage() == "tidying"; ++i) {
    if (!story.state.awaited) story.wake();
    story.answer(StorageSurveyed{{{done}, {}}});
  }
}

// Looks as often as the core wants, and finds nothing left.
TEST(Finish, MarksTheResultLeavesNothingAndCancelsTheFleetLast) {
  Story story;
  story.train();
  story.sense(TrainerEnded{true, false});
  EXPECT_EQ(story.asked(), "sync-storage");
  story.answer(StorageSynced{});
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
  const Time clean = story.now;
  tidy_until_quiet(story, done);
  ASSERT_TRUE(story.did<CancelFleet>());
  EXPECT_GE(story.now - clean, story.policy.consistency_bound)
      << "another agent may not see it yet";
  EXPECT_EQ(story.did<CancelFleet>()->fleet.id.view(), "sfr-1");
  story.answer(EffectFailed{Failure::Unavailable});
  story.wake();
  EXPECT_EQ(story.asked(), "cancel-fleet") << "until it succeeds";
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "finished");
}

class SentResult : public testing::Test {
 protected:
  SentResult() {
    story.policy.sends_result = true;
    story.train();
    story.sense(TrainerEnded{true, false});
    story.answer(StorageSynced{});
    story.answer(LedgerWritten{});
    EXPECT_EQ(story.asked(), "send-result") << "the ledger is done before";
  }
  Story story;
};

TEST_F(SentResult, ComesBeforeTheMark) {
  story.answer(ResultSent{});
  EXPECT_EQ(story.asked(), "mark-done");
}

TEST_F(SentResult, IsTriedThreeTimesAndNeverKeepsTheJobFromItsEnd) {
  for (int i = 0; i < 2; ++i) {
    story.answer(EffectFailed{Failure::Unavailable, false, "S3"});
    EXPECT_EQ(story.asked(), "");
    story.wake();
    EXPECT_EQ(story.asked(), "send-result");
  }
  story.answer(EffectFailed{Failure::Unavailable, false, "S3"});
  EXPECT_EQ(story.asked(), "mark-done");
}

TEST_F(SentResult, ThatIsRefusedIsNotTriedAgain) {
  story.answer(EffectFailed{Failure::Refused, false, "s3:PutObject"});
  EXPECT_EQ(story.asked(), "mark-done");
}

TEST_F(SentResult, IsLeftToTheNextSessionOnANotice) {
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + std::chrono::seconds(120)});
  ASSERT_TRUE(story.did<Abandon>());
  story.answer(EffectFailed{Failure::Abandoned, true, {}});
  EXPECT_EQ(story.asked(), "unmount");
  EXPECT_FALSE(story.did<MarkDone>());
  EXPECT_FALSE(story.state.facts.exit.done);
}

TEST_F(SentResult, IsLeftToTheNextSessionOnANoticeBetweenTwoTries) {
  story.answer(EffectFailed{Failure::Unavailable, false, "S3"});
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + std::chrono::seconds(120)});
  story.wake();
  EXPECT_EQ(story.asked(), "unmount");
}

TEST(Finish, ACopyThatIsStillBeingCreatedIsWaitedForNotLeftBehind) {
  Story story;
  story.boot();
  SeenVolume done = the_volume();
  done.done = true;
  SeenVolume copy = the_copy(Role::Candidate);
  copy.state = VolumeState::Creating;
  story.survey({done, copy});
  story.answer(StorageSurveyed{{{done, copy}, {}}});
  EXPECT_EQ(story.stage(), "tidying");
  story.wake();
  copy.state = VolumeState::Available;
  const Time free = story.now;
  story.answer(StorageSurveyed{{{done, copy}, {}}});
  for (int i = 0; i < 100 && !story.did<DeleteVolume>(); ++i) {
    if (!story.state.awaited) story.wake();
    story.answer(StorageSurveyed{{{done, copy}, {}}});
  }
  ASSERT_TRUE(story.did<DeleteVolume>());
  EXPECT_EQ(story.did<DeleteVolume>()->volume, copy.id);
  EXPECT_GE(story.now - free, story.policy.consistency_bound) << "it may be elected";
}

TEST(Finish, AResultThatHasMovedIsFollowed) {
  Story story;
  story.train();
  story.finish();
  EXPECT_EQ(story.stage(), "tidying");
  // An agent that had not seen `done` made a copy and deleted the original.
  story.answer(StorageSurveyed{{{the_copy(Role::Verified, 1)}, {}}});
  EXPECT_EQ(story.stage(), "waiting");
  EXPECT_EQ(std::get<Waiting>(story.state.stage).why, Wait::CommitSettling);
}

// The same, and the copy was promoted so soon that this session sees nothing in between.
TEST(Finish, AResultWhoseCopyIsTheJobsVolumeByNowIsFollowed) {
  for (const bool old_is_shown : {false, true}) {
    Story story;
    story.train();
    story.finish();
    SeenVolume original = the_volume();
    original.done = true;
    std::vector<SeenVolume> volumes = {held(the_moved_volume(), "i-other")};
    if (old_is_shown) volumes.push_back(original);
    story.answer(StorageSurveyed{{volumes, {}}});
    EXPECT_FALSE(story.state.facts.exit.done);
    ASSERT_EQ(story.stage(), "waiting");
    EXPECT_EQ(std::get<Waiting>(story.state.stage).why, Wait::VolumeHeld);
  }
}

TEST(Finish, AResultThatIsMarkedOnTheCopyIsTheEnd) {
  Story story;
  story.train();
  story.finish();
  SeenVolume moved = the_moved_volume();
  moved.done = true;
  tidy_until_quiet(story, moved);
  EXPECT_EQ(story.asked(), "cancel-fleet");
}

// The agent that deleted the original is gone, and EC2 shows its copy as it was before.
TEST(Finish, WhatMayHaveTheResultIsNotDeletedBeforeACommitCanBeSeen) {
  for (const bool verified : {false, true}) {
    Story story;
    story.train();
    story.finish();
    const Time gone = story.now;
    const SeenVolume copy = the_copy(Role::Candidate, 1);
    const auto shown = [&] { return story.now - gone; };
    while (shown() < story.policy.consistency_bound && story.stage() == "tidying") {
      story.answer(StorageSurveyed{{{copy}, {the_snapshot(SnapshotState::Completed)}}});
      ASSERT_FALSE(story.did<DeleteVolume>());
      ASSERT_FALSE(story.did<DeleteSnapshot>());
      story.wake();
    }
    ASSERT_EQ(story.asked(), "survey-storage");
    if (verified) {
      story.answer(StorageSurveyed{{{the_copy(Role::Verified, 1)}, {}}});
      ASSERT_EQ(story.stage(), "waiting");
      EXPECT_EQ(std::get<Waiting>(story.state.stage).why, Wait::CommitSettling);
      continue;
    }
    for (int look = 0; look < 100 && !story.did<DeleteVolume>(); ++look) {
      if (!story.state.awaited) story.wake();
      story.answer(StorageSurveyed{{{copy}, {}}});
    }
    ASSERT_TRUE(story.did<DeleteVolume>());
    EXPECT_GE(shown(), 2 * story.policy.consistency_bound);
  }
}

TEST(Finish, AnOriginalThatIsBeingDeletedIsNoEnd) {
  Story story;
  story.boot("us-west-2b");
  SeenVolume original = the_volume();
  original.done = true;
  original.state = VolumeState::Deleting;
  story.survey({original, the_copy(Role::Verified)});
  EXPECT_FALSE(story.state.facts.exit.done);
  EXPECT_EQ(story.stage(), "waiting");
}

TEST(Finish, ATrainerThatFinishesInTheVerySecondOfTheNoticeIsDone) {
  Story story;
  story.train();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
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
  tidy_until_quiet(story, done);
  EXPECT_EQ(story.asked(), "cancel-fleet");
}

TEST(Finish, AResultThatCannotBeSyncedIsNotDone) {
  Story story;
  story.train();
  story.sense(TrainerEnded{true, false});
  story.answer(EffectFailed{});
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_EQ(story.asked(), "unmount") << "only a new mount brings the file system back";
  EXPECT_FALSE(story.state.facts.exit.done);
  story.wake();
  EXPECT_EQ(story.asked(), "survey-storage") << "the trainer will write it again";
}

TEST(Finish, AFleetThatCouldNotBeAskedForAtTheStartIsAskedForAtTheEnd) {
  Story story;
  story.adopt();
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(EffectFailed{});
  story.answer(LedgerRead{});
  ASSERT_EQ(story.stage(), "training");
  story.finish();
  SeenVolume done = the_volume();
  done.done = true;
  tidy_until_quiet(story, done);
  EXPECT_EQ(story.asked(), "read-fleet");
  story.answer(FleetRead{{FleetKind::Ec2Fleet, "fleet-1"}, 0});
  ASSERT_TRUE(story.did<CancelFleet>());
  EXPECT_EQ(story.did<CancelFleet>()->fleet.id.view(), "fleet-1");
}

// Seed 20134823: the unmount, which would have synced it, was in vain.
TEST(Finish, AResultIsSyncedAlsoWhereTheLedgerCannotBeRead) {
  Story story;
  story.watch_adopted(EffectFailed{});
  story.sense(TrainerEnded{true});
  EXPECT_EQ(story.asked(), "sync-storage");
  story.answer(StorageSynced{});
  EXPECT_EQ(story.asked(), "mark-done") << "what was not read is not overwritten";
}

TEST(Finish, AnEndIsNotBelievedWhenItsFileSystemHadToBeMountedAgain) {
  Story story;
  story.sense(Started{});
  HostLooked seen;
  seen.trainer = HostLooked::Trainer::Ended;
  seen.ended = {true, false};
  seen.mounted = kVolume;
  story.answer(seen);
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0});
  story.survey({held(the_volume(), kMe)});
  story.answer(CallAccepted{});
  SeenVolume claimed = held(the_volume(), kMe);
  claimed.generation = 1;
  story.survey({claimed});
  story.answer(DeviceFound{"/dev/nvme1n1"});
  story.answer(DiskInspected{false, true, {}});
  EffectFailed shut_down;  // after an I/O error
  shut_down.failure = Failure::MountFailed;
  story.answer(shut_down);
  EXPECT_EQ(story.asked(), "unmount");
  story.wake();
  story.survey({claimed});
  story.mount_and_read();
  EXPECT_EQ(story.asked(), "fetch-code") << "what was not synced is lost with the mount";
}

TEST(Finish, AMarkThatFailedIsMadeWhenTheVolumeIsReleased) {
  Story story;
  story.train();
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
  story.answer(LedgerWritten{});
  story.answer(EffectFailed{});
  EXPECT_EQ(story.asked(), "unmount");
  story.answer(Unmounted{});
  story.answer(CallAccepted{});
  story.answer(StorageSurveyed{{{the_volume()}, {}}});
  EXPECT_EQ(story.asked(), "mark-done");
}

// An earlier session was killed while it verified the copy, and its processes hold it.
TEST(Finish, ACopyThatCannotBeUnmountedIsNotDetached) {
  Story story;
  story.boot();
  SeenVolume done = the_volume();
  done.done = true;
  const SeenVolume copy = held(the_copy(Role::Candidate), kMe);
  story.survey({done, copy});
  for (std::uint32_t tries = 0; tries <= story.policy.stuck_tries; ++tries) {
    ASSERT_EQ(story.asked(), "unmount");
    story.answer(EffectFailed{Failure::Busy});
    if (story.stage() == "unmounting") story.wake();
  }
  ASSERT_EQ(story.stage(), "tidying");
  const Time limit = story.now + story.policy.tidy_limit;
  while (story.stage() == "tidying") {
    ASSERT_FALSE(story.did<DetachVolume>());
    story.answer(StorageSurveyed{{{done, copy}, {}}});
    if (story.stage() == "tidying") story.wake();
  }
  EXPECT_GE(story.now, limit) << "it may be unmounted yet";
  EXPECT_FALSE(story.did<DetachVolume>());
}

// Everything that `done` stands for was synced before it was said. A file system that an I/O error
// shut down takes nothing more, and the job is done all the same.
TEST(Finish, WhatIsDoneIsNotWrittenAgain) {
  Story story;
  story.boot();
  SeenVolume volume = held(the_volume(), kMe);
  volume.generation = 1;
  story.survey({volume}, {});
  story.answer(CallAccepted{});
  volume.generation = 2;
  story.answer(StorageSurveyed{{{volume}, {}}});
  story.mount();
  story.answer(LedgerRead{});
  EffectFailed broken;
  broken.failure = Failure::Rejected;
  story.answer(broken);
  ASSERT_EQ(story.stage(), "blocked");
  story.wake();
  volume.done = true;
  story.answer(StorageSurveyed{{{volume}, {}}});
  EXPECT_EQ(story.asked(), "unmount");
}

}  // namespace
}  // namespace spotter::decide
