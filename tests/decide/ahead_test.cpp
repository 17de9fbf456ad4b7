// Snapshots ahead of a move: after durable checkpoints, on a hint, and once more before the
// release.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

class Ahead : public testing::Test {
 protected:
  Ahead() {
    story_.policy.snapshot_dollars = 0.05;
    story_.train();
    claimed_ = held(the_volume(), kMe);
    claimed_.generation = 1;
  }

  SeenSnapshot image(const char* id, SnapshotState state, std::int64_t started) const {
    SeenSnapshot snapshot = the_snapshot(state);
    snapshot.id = SnapshotId(id);
    snapshot.started = started;
    snapshot.taken = Taken::InUse;
    return snapshot;
  }
  // That of the released volume, as the next machine sees it.
  SeenSnapshot last_one(std::uint32_t generation) const {
    SeenSnapshot snapshot = image("snap-9", SnapshotState::Completed, 100);
    snapshot.taken = Taken::Released;
    snapshot.generation = generation;
    return snapshot;
  }
  static SeenVolume used_volume() {  // in us-west-2a; once, and released
    SeenVolume volume = the_volume("us-west-2a");
    volume.generation = 1;
    return volume;
  }
  // A checkpoint, and the look that follows it.
  void checkpoint_and_look(std::int64_t step, std::vector<SeenSnapshot> snapshots) {
    story_.sense(CheckpointMade{step, seconds(5)});
    story_.wake();
    story_.answer(StorageSurveyed{{{claimed_}, std::move(snapshots)}});
  }

  Story story_;
  SeenVolume claimed_;
};

TEST_F(Ahead, ASnapshotFollowsACheckpointAndIsOfNoGenerationThatAMoveWouldTake) {
  checkpoint_and_look(1, {});
  ASSERT_TRUE(story_.did<CreateSnapshot>());
  EXPECT_EQ(story_.did<CreateSnapshot>()->taken, Taken::InUse);
  EXPECT_EQ(story_.did<CreateSnapshot>()->generation, 0U);
  story_.answer(SnapshotStarted{"snap-1"});
  EXPECT_EQ(story_.stage(), "training");
}

TEST_F(Ahead, TheNextOneWaitsForItsTurnAndForTheOneUnderWay) {
  checkpoint_and_look(1, {});
  story_.answer(SnapshotStarted{"snap-1"});
  const Time before = story_.state.wake_at;
  story_.sense(CheckpointMade{2, seconds(5)});
  EXPECT_EQ(story_.state.wake_at, before);  // too soon
  story_.pass(story_.policy.snapshot_every);
  checkpoint_and_look(3, {image("snap-1", SnapshotState::Pending, 100)});
  EXPECT_EQ(story_.asked(), "");
}

TEST_F(Ahead, OnlyTheNewestIsKeptAndFailedOnesAreNot) {
  checkpoint_and_look(1, {image("snap-1", SnapshotState::Completed, 100),
                          image("snap-2", SnapshotState::Completed, 200),
                          image("snap-3", SnapshotState::Failed, 300)});
  ASSERT_TRUE(story_.did<DeleteSnapshot>());
  EXPECT_EQ(story_.did<DeleteSnapshot>()->snapshot, SnapshotId("snap-1"));
  story_.answer(CallAccepted{});
  story_.answer(StorageSurveyed{{{claimed_},
                                 {image("snap-2", SnapshotState::Completed, 200),
                                  image("snap-3", SnapshotState::Failed, 300)}}});
  ASSERT_TRUE(story_.did<DeleteSnapshot>());
  EXPECT_EQ(story_.did<DeleteSnapshot>()->snapshot, SnapshotId("snap-3"));
  story_.answer(CallAccepted{});
  story_.answer(StorageSurveyed{{{claimed_}, {image("snap-2", SnapshotState::Completed, 200)}}});
  EXPECT_TRUE(story_.did<CreateSnapshot>());
}

TEST_F(Ahead, AHintBringsTheNextOneForward) {
  checkpoint_and_look(1, {});
  story_.answer(SnapshotStarted{"snap-1"});
  story_.pass(minutes(2));
  story_.sense(RebalanceRecommended{});
  EXPECT_EQ(story_.stage(), "training");
  checkpoint_and_look(2, {image("snap-1", SnapshotState::Completed, 100)});
  EXPECT_TRUE(story_.did<CreateSnapshot>());
}

// The claim cannot have been seen yet: the next one may use the same generation.
TEST_F(Ahead, TheLastOneIsTakenOfTheUnmountedVolumeBeforeItIsReleased) {
  story_.state.facts.holding.claimed_at = story_.now;
  story_.sense(CheckpointMade{1});
  story_.unmount_on_notice(seconds(110));
  ASSERT_TRUE(story_.did<CreateSnapshot>());
  EXPECT_EQ(story_.did<CreateSnapshot>()->taken, Taken::InUse);
  story_.answer(SnapshotStarted{"snap-9"});
  story_.wake();
  EXPECT_EQ(story_.asked(), "detach-volume");
}

TEST_F(Ahead, OnceAllCanHaveSeenTheClaimTheMoveUsesTheLastOne) {
  story_.state.facts.holding.claimed_at =
      story_.now - story_.policy.consistency_bound - 2 * story_.policy.commit_call;
  story_.sense(CheckpointMade{1});
  story_.unmount_on_notice(seconds(110));
  ASSERT_TRUE(story_.did<CreateSnapshot>());
  EXPECT_EQ(story_.did<CreateSnapshot>()->taken, Taken::Released);
  EXPECT_EQ(story_.did<CreateSnapshot>()->generation, 1U);

  Story mover;
  mover.boot("us-west-2b");
  SeenVolume volume = used_volume();
  const SeenSnapshot last = last_one(1);
  mover.survey({volume}, {last});
  ASSERT_TRUE(mover.did<CreateVolume>());
  EXPECT_EQ(mover.did<CreateVolume>()->snapshot, SnapshotId("snap-9"));
}

// By then a person may have changed the volume by hand.
TEST_F(Ahead, TheLastOneIsTheMovesForAWhileOnly) {
  for (const bool late : {false, true}) {
    Story mover;
    mover.boot("us-west-2b");
    const SeenVolume volume = used_volume();
    SeenSnapshot last = last_one(1);
    last.age = mover.policy.released_counts - seconds(late ? 0 : 1);
    mover.survey({volume}, {last});
    EXPECT_EQ(mover.asked(), late ? "create-snapshot" : "create-volume");
  }
}

// Its tag may be lost: by a person, or a tool that removes the tags it does not know.
TEST_F(Ahead, NobodyUsesTheVolumeInTheGenerationOfItsLastOneAgain) {
  Story next;
  next.boot("us-west-2a");
  SeenVolume volume = held(the_volume("us-west-2a"), kMe);
  const SeenSnapshot last = last_one(3);
  next.survey({volume}, {last});
  ASSERT_TRUE(next.did<ClaimVolume>());
  EXPECT_EQ(next.did<ClaimVolume>()->generation, 4U);
  next.answer(CallAccepted{});
  next.answer(StorageSurveyed{{{volume}, {last}}});
  EXPECT_EQ(next.stage(), "waiting") << "until the claim is seen";
  volume.generation = 4;
  next.wake();
  next.answer(StorageSurveyed{{{volume}, {last}}});
  EXPECT_EQ(next.asked(), "find-device");
}

// It need not mean a move: an instance that has the volume in its zone waits for nothing.
TEST_F(Ahead, TheLastOneIsNoSignOfAMove) {
  Story stays;
  stays.boot("us-west-2a");
  SeenVolume volume = used_volume();
  const SeenSnapshot last = last_one(1);
  stays.survey({volume}, {last});
  stays.answer(CallAccepted{});
  volume = held(volume, kMe);
  stays.wake();
  stays.answer(StorageSurveyed{{{volume}, {last}}});
  stays.answer(CallAccepted{});
  volume.generation = 2;
  stays.answer(StorageSurveyed{{{volume}, {last}}});
  EXPECT_EQ(stays.asked(), "find-device");
}

TEST_F(Ahead, AStoppedInstanceKeepsItsVolumeInItsZone) {
  story_.unmount_on_notice(seconds(110), InterruptionAction::Stop);
  EXPECT_EQ(story_.asked(), "detach-volume");
}

TEST_F(Ahead, NoMoveIsMadeFromOneAndNoneIsTakenForAMoveUnderWay) {
  Story mover;
  mover.boot("us-west-2b");
  SeenVolume volume = used_volume();
  mover.survey({volume}, {image("snap-1", SnapshotState::Completed, 100)});
  ASSERT_TRUE(mover.did<CreateSnapshot>());  // its own, of the volume that nobody uses
  EXPECT_EQ(mover.did<CreateSnapshot>()->taken, Taken::Moving);
  EXPECT_EQ(mover.did<CreateSnapshot>()->generation, 1U);
}

TEST_F(Ahead, WhenEverythingElseIsLostItIsWhatIsLeft) {
  Story elected;
  elected.boot("us-west-2b");
  const auto left = image("snap-1", SnapshotState::Completed, 100);
  elected.survey({}, {left});
  for (int i = 0; i < 100 && elected.stage() == "waiting"; ++i) elected.survey({}, {left});
  ASSERT_TRUE(elected.did<CreateVolume>());
  EXPECT_EQ(elected.did<CreateVolume>()->snapshot, SnapshotId("snap-1"));
}

}  // namespace
}  // namespace spotter::decide
