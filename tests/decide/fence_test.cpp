// A job with a fence: what the epoch in S3 allows, whatever EC2 shows.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

const InstanceId kOther = "i-other";

Epoch an_epoch(Epoch::State state, const InstanceId& holder, std::uint32_t number = 4) {
  Epoch epoch;
  epoch.state = state;
  epoch.number = number;
  epoch.line = epoch.volume = kVolume;
  epoch.generation = 2;
  epoch.holder = holder;
  return epoch;
}

class FenceTest : public ::testing::Test {
 protected:
  FenceTest() { story_.policy.fence = true; }

  void look(std::vector<SeenVolume> volumes, const Epoch& epoch,
            HolderState holder = HolderState::Alive, std::vector<SeenSnapshot> snapshots = {}) {
    if (story_.stage() != "surveying") story_.wake();
    Survey survey;
    survey.volumes = std::move(volumes);
    survey.snapshots = std::move(snapshots);
    survey.epoch_line = kVolume;
    survey.epoch = epoch;
    survey.epoch_holder = holder;
    story_.answer(StorageSurveyed{survey});
  }
  Epoch written() const {
    const auto* write = story_.did<WriteEpoch>();
    EXPECT_TRUE(write) << story_.stage() << ": " << story_.asked();
    return write ? write->epoch : Epoch();
  }
  // In zone b, the volume in a: the epoch is ours, the copy attached here and whole.
  void prove_copy() {
    story_.boot("us-west-2b");
    look({the_volume()}, an_epoch(Epoch::State::Released, kOther));
    moving_ = written();
    story_.answer(EpochWritten{});
    look({the_volume()}, moving_);
    ASSERT_TRUE(story_.did<CreateSnapshot>());
    EXPECT_EQ(story_.did<CreateSnapshot>()->generation, 2U) << "the epoch's, not the tag's";
    story_.answer(SnapshotStarted{"snap-1"});
    snapshots_ = {the_snapshot(SnapshotState::Completed, 2)};
    look({the_volume()}, moving_, HolderState::Alive, snapshots_);
    story_.answer(VolumeCreated{kCopy});
    copy_ = the_copy(Role::Candidate, 2);
    look({the_volume(), copy_}, moving_, HolderState::Alive, snapshots_);
    story_.answer(CallAccepted{});
    copy_ = held(copy_, kMe);
    look({the_volume(), copy_}, moving_, HolderState::Alive, snapshots_);
    story_.answer(DeviceFound{"/dev/nvme1n1"});
    DiskInspected disk;
    disk.matches = true;
    story_.answer(disk);
    story_.answer(Mounted{});
    story_.answer(LedgerRead{});
    story_.answer(CheckpointsVerified{250, 0});
    look({the_volume(), copy_}, moving_, HolderState::Alive, snapshots_);
    EXPECT_EQ(story_.asked(), "mark-verified");
    story_.answer(CallAccepted{});
  }
  // In the volume's zone: the epoch is ours, the volume attached, claimed and trained on.
  void train(const Epoch& ours) {
    story_.answer(EpochWritten{});
    look({the_volume()}, ours);
    story_.answer(CallAccepted{});
    look({held(the_volume(), kMe)}, ours);
    ASSERT_TRUE(story_.did<ClaimVolume>());
    story_.answer(CallAccepted{});
    look({held(the_volume(), kMe)}, ours);
    story_.mount_and_read();
    story_.answer(CodeFetched{});
    story_.answer(LedgerWritten{});
    story_.answer(TrainerStarted{});
  }

  Story story_;
  Epoch moving_;
  SeenVolume copy_;
  std::vector<SeenSnapshot> snapshots_;
};

// Ahead of a move it would be of an older generation, and the next agent would make another one.
TEST_F(FenceTest, TheLastSnapshotIsTheMovesOwn) {
  story_.policy.snapshot_dollars = 0.05;
  story_.boot();
  look({the_volume()}, an_epoch(Epoch::State::Released, kOther));
  Epoch ours = written();
  train(ours);
  story_.unmount_on_notice(seconds(110));
  ASSERT_TRUE(story_.did<CreateSnapshot>());
  EXPECT_EQ(story_.did<CreateSnapshot>()->taken, Taken::Released);
  EXPECT_EQ(story_.did<CreateSnapshot>()->generation, ours.generation);
  story_.answer(SnapshotStarted{"snap-1"});
  EXPECT_EQ(written().state, Epoch::State::Released);

  Story next;
  next.policy.fence = true;
  next.boot("us-west-2b");
  Survey survey;
  survey.volumes = {the_volume()};
  survey.snapshots = {the_snapshot(SnapshotState::Completed, ours.generation)};
  survey.epoch_line = kVolume;
  survey.epoch = written();
  next.answer(StorageSurveyed{survey});
  ASSERT_TRUE(next.did<WriteEpoch>());
  survey.epoch = next.did<WriteEpoch>()->epoch;
  EXPECT_EQ(survey.epoch.state, Epoch::State::Moving);
  next.answer(EpochWritten{});
  next.answer(StorageSurveyed{survey});
  ASSERT_TRUE(next.did<CreateVolume>()) << "no other snapshot is made";
  EXPECT_EQ(next.did<CreateVolume>()->snapshot, survey.snapshots.front().id);
}

TEST_F(FenceTest, IsWrittenBeforeTheVolumeIsAttached) {
  story_.boot();
  look({the_volume()}, {});
  const Epoch first = written();
  EXPECT_EQ(first.number, 1U);
  EXPECT_EQ(first.state, Epoch::State::Using);
  EXPECT_EQ(first.volume, kVolume);
  EXPECT_EQ(first.line, kVolume);
  EXPECT_EQ(first.holder, kMe);
  story_.answer(EpochWritten{});
  look({the_volume()}, first);
  EXPECT_EQ(story_.asked(), "attach-volume");
}

TEST_F(FenceTest, OfAnotherInstanceIsTakenOnlyWhenThatIsTerminated) {
  story_.boot();
  const Epoch others = an_epoch(Epoch::State::Using, kOther);
  for (int i = 0; i < 100; ++i) {
    look({the_volume()}, others);
    ASSERT_EQ(story_.stage(), "waiting") << "EC2 shows the volume as free: that may be old";
  }
  look({the_volume()}, others, HolderState::Gone);
  EXPECT_EQ(written().number, others.number + 1);
  EXPECT_EQ(written().generation, others.generation + 1);
}

TEST_F(FenceTest, OfAStoppedInstanceIsTakenWhenThatWasShownForAWholeBound) {
  story_.boot();
  const Epoch others = an_epoch(Epoch::State::Using, kOther);
  look({the_volume()}, others, HolderState::Stopped);
  const Time began = story_.now;
  for (int i = 0; i < 100 && !story_.did<WriteEpoch>(); ++i) {
    ASSERT_EQ(story_.stage(), "waiting");
    look({the_volume()}, others, HolderState::Stopped);
  }
  EXPECT_TRUE(story_.did<WriteEpoch>());
  EXPECT_GE(story_.now - began, story_.policy.consistency_bound);
}

TEST_F(FenceTest, StartsThatBoundAgainWhenTheInstanceIsSeenToRun) {
  story_.boot();
  const Epoch others = an_epoch(Epoch::State::Using, kOther);
  look({the_volume()}, others, HolderState::Unknown);
  story_.pass(story_.policy.consistency_bound);
  look({the_volume()}, others, HolderState::Alive);
  look({the_volume()}, others, HolderState::Unknown);
  EXPECT_EQ(story_.stage(), "waiting");
  EXPECT_FALSE(story_.did<WriteEpoch>());
}

TEST_F(FenceTest, StartsThatBoundAgainWithEachEpoch) {
  story_.boot();
  look({the_volume()}, an_epoch(Epoch::State::Using, kOther), HolderState::Stopped);
  story_.pass(story_.policy.consistency_bound);
  look({the_volume()}, an_epoch(Epoch::State::Using, kOther, 5), HolderState::Stopped);
  EXPECT_EQ(story_.stage(), "waiting") << "who wrote it lives, whatever EC2 still shows";
  EXPECT_FALSE(story_.did<WriteEpoch>());
}

TEST_F(FenceTest, DoesNotCopyAVolumeThatAnInstanceHas) {
  story_.boot("us-west-2b");
  const SeenVolume person = held(the_volume(), "i-person");
  look({person}, an_epoch(Epoch::State::Released, kOther));
  const Epoch moving = written();
  story_.answer(EpochWritten{});
  look({person}, moving);
  EXPECT_EQ(story_.stage(), "waiting");
  EXPECT_FALSE(story_.did<CreateSnapshot>());
  look({held(the_volume(), "i-person", HolderState::Gone)}, moving);
  EXPECT_TRUE(story_.did<CreateSnapshot>()) << "EC2 has yet to detach it";
}

// A write that was on its way when an earlier session was killed may be carried out at any later
// time.
TEST_F(FenceTest, IsWrittenAgainByEachSession) {
  story_.boot();
  const Epoch mine = an_epoch(Epoch::State::Using, kMe);
  look({held(the_volume(), kMe)}, mine);
  EXPECT_EQ(written().number, mine.number + 1);
  story_.answer(EpochWritten{});
  look({held(the_volume(), kMe)}, an_epoch(Epoch::State::Released, kMe, mine.number + 2));
  EXPECT_EQ(written().number, mine.number + 3) << "it is not ours, whatever we have written";
}

TEST_F(FenceTest, CommitsAtOnceAndTheOriginalStays) {
  prove_copy();
  const Time verified = story_.now;
  look({the_volume(), copy_}, moving_, HolderState::Alive, snapshots_);
  const Epoch commit = written();
  EXPECT_LT(story_.now - verified, seconds(2)) << "no bound is waited for";
  EXPECT_EQ(commit.number, moving_.number + 1);
  EXPECT_EQ(commit.volume, kCopy);
  EXPECT_EQ(commit.left, kVolume);
  EXPECT_EQ(commit.generation, moving_.generation + 1);
  story_.answer(EpochWritten{});
  ASSERT_TRUE(story_.did<PromoteVolume>());
  EXPECT_EQ(story_.did<PromoteVolume>()->volume, kCopy);
  EXPECT_EQ(story_.did<PromoteVolume>()->generation, commit.generation);
  story_.answer(CallAccepted{});
  look({the_volume(), copy_}, commit, HolderState::Alive, snapshots_);
  ASSERT_TRUE(story_.did<Mount>()) << "though EC2 shows the tags as they were";
  EXPECT_FALSE(story_.did<Mount>()->read_only);
}

TEST_F(FenceTest, WhoseCommitHasNoAnswerIsReadAndNotBelieved) {
  prove_copy();
  look({the_volume(), copy_}, moving_, HolderState::Alive, snapshots_);
  const Epoch commit = written();
  EffectFailed lost;
  lost.unsettled = true;
  story_.answer(lost);
  look({the_volume(), copy_}, commit, HolderState::Alive, snapshots_);
  EXPECT_EQ(written().number, commit.number + 1) << "after which nothing earlier is taken";
  EXPECT_EQ(written().volume, kCopy);
}

TEST_F(FenceTest, ThatAnotherTookBeforeTheCommitDropsTheCopy) {
  prove_copy();
  look({the_volume(), copy_}, moving_, HolderState::Alive, snapshots_);
  EffectFailed conflict;
  conflict.failure = Failure::Conflict;
  story_.answer(conflict);
  look({the_volume(), copy_}, an_epoch(Epoch::State::Using, kOther, moving_.number + 1));
  EXPECT_EQ(story_.asked(), "unmount");
}

TEST_F(FenceTest, IsReleasedWhenNothingIsMounted) {
  story_.boot();
  look({the_volume()}, {});
  Epoch mine = written();
  train(mine);
  story_.sense(NoticeSeen{InterruptionAction::Stop, story_.now + minutes(2)});
  story_.sense(TrainerEnded{false, true});
  story_.answer(LedgerWritten{});
  EXPECT_FALSE(story_.did<WriteEpoch>());
  story_.answer(Unmounted{});
  EXPECT_EQ(written().state, Epoch::State::Released);
  EXPECT_EQ(written().number, mine.number + 1);
  // S3 does not take it: the next instance waits for our end, and this one goes on.
  story_.answer(EffectFailed{});
  EXPECT_EQ(story_.asked(), "detach-volume");
}

TEST_F(FenceTest, ThatWasNotReadIsNoFirstOne) {
  story_.boot();
  Survey survey;
  survey.volumes = {the_volume()};
  story_.answer(StorageSurveyed{survey});
  EXPECT_EQ(story_.stage(), "waiting");
  EXPECT_FALSE(story_.did<WriteEpoch>());
}

TEST_F(FenceTest, ForgetsTheOriginalWhenItIsDeleted) {
  story_.boot("us-west-2b");
  Epoch mine = an_epoch(Epoch::State::Using, kMe);
  mine.volume = kCopy;
  mine.left = kVolume;
  story_.state.stage = Training{};
  story_.state.facts.trainer.running = story_.state.facts.holding.mounted = true;
  story_.state.facts.holding.volume = kCopy;
  story_.state.facts.move.lineage = kVolume;
  SeenVolume copy = held(the_copy(Role::State, 2), kMe);
  copy.discoverable = true;
  copy.lineage = kVolume;
  Survey survey;
  survey.volumes = {the_volume(), copy};
  survey.epoch_line = kVolume;
  survey.epoch = mine;
  story_.answer(StorageSurveyed{survey});
  ASSERT_TRUE(story_.did<DeleteVolume>());
  EXPECT_EQ(story_.did<DeleteVolume>()->volume, kVolume);
  story_.answer(CallAccepted{});
  survey.volumes = {copy};
  story_.answer(StorageSurveyed{survey});
  EXPECT_TRUE(written().left.empty());
  EXPECT_EQ(written().number, mine.number + 1);
  story_.answer(EpochWritten{});
  EXPECT_EQ(story_.state.facts.fence.epoch.number, mine.number + 1) << "the release follows it";
}

TEST_F(FenceTest, OfAnAdoptedTrainerIsReadAtOnceSoThatANoticeFindsIt) {
  story_.watch_adopted();
  story_.wake();
  ASSERT_TRUE(story_.did<SurveyStorage>()) << story_.asked();
  Survey survey;
  survey.volumes = {held(the_volume(), kMe)};
  survey.epoch_line = "vol-another";  // which a person has given the tag
  story_.answer(StorageSurveyed{survey});
  ASSERT_TRUE(story_.did<SurveyStorage>());
  EXPECT_EQ(story_.did<SurveyStorage>()->line, kVolume);
  survey.epoch_line = kVolume;
  survey.epoch = an_epoch(Epoch::State::Using, kMe);
  survey.volumes.push_back(the_copy(Role::Candidate));
  story_.answer(StorageSurveyed{survey});
  EXPECT_FALSE(story_.did<DeleteVolume>()) << "the trainer has shown nothing yet";
  story_.unmount_on_notice(seconds(100));
  EXPECT_EQ(written().state, Epoch::State::Released);
}

// Found by `simulate --fence --replay 131895`: the trainer was adopted, and a person tagged another
// volume.
TEST_F(FenceTest, OfTheVolumeThatIsHeldIsReadBeforeTidying) {
  story_.boot();
  story_.state.stage = Tidying{};
  story_.state.facts.tidying.since = story_.now;
  story_.state.facts.holding.volume = kVolume;
  Survey survey;
  survey.volumes = {the_volume()};
  survey.epoch_line = "vol-another";
  story_.answer(StorageSurveyed{survey});
  ASSERT_TRUE(story_.did<SurveyStorage>()) << story_.asked();
  EXPECT_EQ(story_.did<SurveyStorage>()->line, kVolume);
}

TEST_F(FenceTest, ThatIsMissingThoughTheTagNamesItNeedsAPerson) {
  story_.boot();
  SeenVolume volume = the_volume();
  volume.fence = FenceTag::Ours;
  look({volume}, {});
  EXPECT_EQ(story_.stage(), "blocked");
}

TEST_F(FenceTest, ThatTheTagNamesIsNotPassedOverByAnAgentWithoutOne) {
  for (const bool fence : {false, true}) {
    Story story;
    story.policy.fence = fence;
    story.boot();
    SeenVolume volume = the_volume();
    volume.fence = fence ? FenceTag::Other : FenceTag::Ours;
    Survey survey;
    survey.volumes = {volume};
    survey.epoch_line = kVolume;
    story.answer(StorageSurveyed{survey});
    EXPECT_EQ(story.stage(), "blocked");
  }
}

TEST_F(FenceTest, WhoseVolumeIsNotShownIsNotReplacedByAnother) {
  story_.boot();
  Epoch moved = an_epoch(Epoch::State::Released, kOther);
  moved.volume = kCopy;
  moved.left = kVolume;
  for (int i = 0; i < 100 && story_.stage() != "blocked"; ++i) {
    look({the_volume()}, moved);
    ASSERT_FALSE(story_.did<AttachVolume>());
  }
  EXPECT_EQ(story_.stage(), "blocked");
}

}  // namespace
}  // namespace spotter::decide
