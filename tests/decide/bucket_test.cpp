// A job whose home is in a bucket: the epoch in its head says who may write.
#include <gtest/gtest.h>

#include "tests/decide/bucket_story.hpp"

namespace spotter::decide {
namespace {

const InstanceId kOtherHolder = "i-other";

Epoch epoch_of(Epoch::State state, const InstanceId& holder, std::uint32_t number) {
  Epoch epoch;
  epoch.state = state;
  epoch.holder = holder;
  epoch.number = number;
  return epoch;
}

TEST(Bucket, OfAnotherMachineIsWaitedForUntilThatIsGone) {
  BucketStory story;
  story.boot();
  const Epoch others = epoch_of(Epoch::State::Using, kOtherHolder, 7);
  for (int i = 0; i < 50; ++i) {
    story.look(others);
    ASSERT_EQ(story.stage(), "waiting");
    EXPECT_FALSE(story.did<WriteEpoch>());
  }
  story.look(others, HolderState::Gone);
  ASSERT_TRUE(story.did<WriteEpoch>());
  EXPECT_EQ(story.did<WriteEpoch>()->epoch.number, 8U);
  EXPECT_EQ(story.did<WriteEpoch>()->epoch.holder, kMe);
}

TEST(Bucket, ThatIsReleasedIsTakenAtOnce) {
  BucketStory story;
  story.boot();
  story.look(epoch_of(Epoch::State::Released, kOtherHolder, 7));
  EXPECT_EQ(story.did<WriteEpoch>()->epoch.number, 8U);
}

// The session woke up when its claim was over: it takes nothing, and its worker ends it.
TEST(Bucket, ThatALaterClaimReleasedIsNotTakenByAnEarlierOne) {
  BucketStory story;
  story.boot();
  Survey survey;
  survey.epoch = epoch_of(Epoch::State::Released, kOtherHolder, 7);
  survey.epoch_self = kMe;
  survey.later_claim = true;
  story.answer(StorageSurveyed{survey});
  EXPECT_EQ(story.stage(), "waiting");
  EXPECT_FALSE(story.did<WriteEpoch>());
  story.look(survey.epoch);
  EXPECT_TRUE(story.did<WriteEpoch>()) << "claims that were removed begin at 1 again";
}

TEST(Bucket, ANothingIsBroughtOfAnEpochThatSomebodyElseWroteFirst) {
  BucketStory story;
  story.boot();
  story.look({});
  story.answer(EffectFailed{Failure::Conflict, false, {}});
  EXPECT_EQ(story.stage(), "surveying");
  EXPECT_FALSE(story.did<PrepareShare>());
}

TEST(Bucket, AnEpochWhoseAnswerIsLostIsNotReliedOn) {
  BucketStory story;
  story.boot();
  story.look({});
  story.answer(EffectFailed{Failure::Unavailable, true, {}});
  ASSERT_EQ(story.stage(), "waiting");
  story.look(epoch_of(Epoch::State::Using, kMe, 1));  // it was carried out
  ASSERT_TRUE(story.did<WriteEpoch>()) << "the next one settles it";
  EXPECT_EQ(story.did<WriteEpoch>()->epoch.number, 2U);
}

TEST(Bucket, GetsACheckpointAtOnceAndOneWriteAtATime) {
  BucketStory story;
  story.begin();
  story.checkpoint(10);
  ASSERT_TRUE(story.did<WriteLedger>());
  story.checkpoint(20);
  EXPECT_FALSE(story.did<WriteLedger>()) << "the one before is on its way";
  story.kept(10);
  EXPECT_TRUE(story.did<WriteLedger>()) << "and now the next one";
  story.kept(20);
  EXPECT_FALSE(story.did<WriteLedger>());
  EXPECT_EQ(story.state.facts.home.kept_step, 20);
}

TEST(Bucket, ThatAnotherMachineTookEndsTheTrainerAndCommitsNothing) {
  BucketStory story;
  story.begin();
  story.sense(HomeKept{HomeKept::Outcome::Lost, -1, 0, {}});
  EXPECT_EQ(story.stage(), "stopping");
  story.wake();
  EXPECT_TRUE(story.did<KillTrainer>()) << "at once";
  story.sense(TrainerEnded{true, false});
  EXPECT_FALSE(story.did<WriteLedger>());
  EXPECT_EQ(story.asked(), "release-share");
  story.answer(Unmounted{});
  EXPECT_FALSE(story.did<WriteEpoch>());
  EXPECT_FALSE(story.did<CancelFleet>());
  EXPECT_FALSE(story.state.facts.exit.done);
}

TEST(Bucket, IsReleasedAfterANoticeWhenAllIsThere) {
  BucketStory story;
  story.begin();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  story.checkpoint(30);
  story.sense(TrainerEnded{false, true});
  ASSERT_TRUE(story.did<WriteLedger>());
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  ASSERT_TRUE(story.did<WriteEpoch>());
  EXPECT_EQ(story.did<WriteEpoch>()->epoch.state, Epoch::State::Released);
  story.answer(EpochWritten{});
  EXPECT_EQ(story.stage(), "released");
}

TEST(Bucket, LeavesTheTimeThatACheckpointsUploadTakes) {
  BucketStory story;
  story.begin();
  story.checkpoint(10);
  story.kept(10, seconds(60));
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  const auto* stop = story.did<StopTrainer>();
  ASSERT_TRUE(stop);
  EXPECT_LE(stop->usable_until, story.now + seconds(120 - 75));
}

TEST(Bucket, LeavesTimeForTheUploadThatIsUnderWay) {
  BucketStory story;
  story.begin();
  story.checkpoint(10);
  story.kept(10, seconds(40));
  story.checkpoint(20);  // its upload begins
  story.pass(seconds(5));
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  const auto* stop = story.did<StopTrainer>();
  ASSERT_TRUE(stop);
  EXPECT_LE(stop->usable_until, story.now + seconds(120 - 35 - 50));
}

TEST(Bucket, BeginsNoCheckpointThatCannotMakeIt) {
  BucketStory story;
  story.begin();
  story.checkpoint(10);
  story.kept(10, seconds(200));
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  story.wake();
  EXPECT_TRUE(story.did<KillTrainer>());
}

TEST(Bucket, SaysDoneAfterTheResultIsThereAndOnlyThenTheFleetGoes) {
  BucketStory story;
  story.begin();
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
  ASSERT_TRUE(story.did<WriteLedger>());
  story.answer(EffectFailed{Failure::Unavailable, true, {}});
  EXPECT_EQ(story.stage(), "waiting") << "not without the result";
  story.look(epoch_of(Epoch::State::Using, kMe, 1));
  story.answer(StorageSynced{});
  story.answer(LedgerWritten{});
  ASSERT_TRUE(story.did<WriteEpoch>());
  EXPECT_EQ(story.did<WriteEpoch>()->epoch.state, Epoch::State::Done);
  EXPECT_FALSE(story.did<CancelFleet>());
  story.answer(EffectFailed{Failure::Unavailable, true, {}});  // and it was carried out
  story.look(epoch_of(Epoch::State::Done, kMe, 2));
  EXPECT_EQ(story.asked(), "release-share");
  story.answer(Unmounted{});
  EXPECT_TRUE(story.did<CancelFleet>());
}

TEST(Bucket, LostBeforeTheResultIsThereIsNotDone) {
  BucketStory story;
  story.begin();
  story.policy.foreground = true;
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
  story.answer(EffectFailed{Failure::Conflict, false, {}});
  story.look(epoch_of(Epoch::State::Using, kOtherHolder, 2));
  EXPECT_EQ(story.asked(), "release-share");
  story.answer(Unmounted{});
  EXPECT_EQ(story.stage(), "leaving");
  EXPECT_FALSE(story.state.facts.exit.done);
}

// Another machine finished it meanwhile, and its result is in the bucket.
TEST(Bucket, TakenBackIsBroughtThoughTheResultHereWasToBeCommitted) {
  BucketStory story;
  story.begin();
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
  story.answer(EffectFailed{Failure::Conflict, false, {}});
  story.look(epoch_of(Epoch::State::Using, kOtherHolder, 2), HolderState::Gone);
  ASSERT_TRUE(story.did<WriteEpoch>());
  story.answer(EpochWritten{});
  EXPECT_EQ(story.asked(), "prepare-share");
}

// Two sessions ended before they had brought the home again: what the trainer left is cleared.
TEST(Bucket, ClearedIsNotDoneThoughTheTrainerEndedWell) {
  BucketStory story;
  story.find_finished();
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0});
  story.look(epoch_of(Epoch::State::Using, kMe, 2), HolderState::Alive);
  ASSERT_TRUE(story.did<WriteEpoch>());
  story.answer(EpochWritten{});
  EXPECT_EQ(story.asked(), "prepare-share");
  story.answer(Mounted{true});
  story.answer(LedgerRead{});
  story.answer(CheckpointsVerified{});
  EXPECT_EQ(story.stage(), "counting-attempt");
  EXPECT_FALSE(story.state.facts.exit.done);
}

TEST(Bucket, ThatS3DidNotTakeIsNotDoneWhenTheSessionHasToLeave) {
  BucketStory story;
  story.begin();
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
  story.answer(EffectFailed{Failure::Unavailable, true, {}});
  ASSERT_EQ(story.stage(), "waiting");
  story.sense(StopRequested{story.now + seconds(2)});
  EXPECT_EQ(story.stage(), "closing-ledger") << "it is tried once more";
  story.answer(EffectFailed{Failure::Unavailable, true, {}});
  story.answer(Unmounted{});
  story.answer(EpochWritten{});
  EXPECT_EQ(story.stage(), "leaving");
  EXPECT_FALSE(story.state.facts.exit.done);
}

TEST(Bucket, WhoseLastWriteHasNoAnswerIsNotSaidToBeDone) {
  BucketStory story;
  story.begin();
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
  story.answer(LedgerWritten{});
  ASSERT_EQ(story.stage(), "marking-done");
  story.sense(StopRequested{story.now + seconds(2)});
  story.answer(EffectFailed{Failure::Unavailable, true, {}});
  story.answer(Unmounted{});
  EXPECT_EQ(story.stage(), "leaving");
  EXPECT_FALSE(story.state.facts.exit.done) << "the next look says";
}

TEST(Bucket, OfAnotherHistoryTakesNoResultThatATrainerLeftHere) {
  BucketStory story;
  story.find_finished();
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 0.9});
  story.look(epoch_of(Epoch::State::Released, kOtherHolder, 7));
  story.answer(EpochWritten{});
  story.answer(Mounted{});
  story.answer(LedgerRead{});
  story.answer(CheckpointsVerified{});
  EXPECT_EQ(story.stage(), "counting-attempt") << "it trains on from what the bucket has";
}

TEST(Bucket, ThatNoTimeMendsIsAPersonsToMend) {
  BucketStory story;
  story.bring();
  story.answer(EffectFailed{Failure::MountFailed, false, "too many files"});
  ASSERT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::ShareUnusable);
}

TEST(Bucket, LearnsOfAnUploadOnlyWhatOneTook) {
  BucketStory story;
  story.begin();
  story.checkpoint(10);
  story.kept(10, seconds(60));
  story.checkpoint(20);
  story.sense(HomeKept{HomeKept::Outcome::Committed, 20, 0, seconds(1)});  // an older one's bytes
  EXPECT_EQ(story.state.facts.home.upload, seconds(60));
  EXPECT_EQ(story.state.facts.home.upload_bytes, 1000U);
}

// A notice, and SIGTERM to `spotter run` in a container.
class BucketAtTheEnd : public testing::TestWithParam<bool> {
 protected:
  BucketAtTheEnd() {
    story_.begin();
    deadline_ = story_.now + seconds(120);
    if (GetParam()) {
      story_.sense(NoticeSeen{InterruptionAction::Terminate, deadline_});
    } else {
      story_.sense(StopRequested{deadline_});
    }
  }
  BucketStory story_;
  Time deadline_;
};
INSTANTIATE_TEST_SUITE_P(, BucketAtTheEnd, testing::Bool());

TEST_P(BucketAtTheEnd, ThatDoesNotTakeTheLastCheckpointIsAskedAgainAsLongAsThereIsTime) {
  story_.checkpoint(30);
  story_.sense(TrainerEnded{false, true});
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(story_.did<WriteLedger>());
    story_.answer(EffectFailed{Failure::Unavailable, true, {}});
    ASSERT_EQ(story_.stage(), "closing-ledger");
    story_.wake();
  }
  story_.answer(LedgerWritten{});
  EXPECT_EQ(story_.asked(), "release-share");
}

TEST_P(BucketAtTheEnd, IsReleasedInTimeThoughItDoesNotTakeTheLastCheckpoint) {
  story_.sense(TrainerEnded{false, true});
  while (story_.stage() == "closing-ledger") {
    ASSERT_LT(story_.now, deadline_);
    story_.pass(seconds(5));
    story_.answer(EffectFailed{Failure::Unavailable, true, {}});
    if (story_.stage() == "closing-ledger") story_.wake();
  }
  EXPECT_EQ(story_.asked(), "release-share");
  EXPECT_LT(story_.now, deadline_);
}

TEST(Bucket, ThatAnotherMachineHasIsNotAskedAgain) {
  BucketStory story;
  story.begin();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  story.sense(TrainerEnded{false, true});
  story.answer(EffectFailed{Failure::Conflict, false, {}});
  EXPECT_EQ(story.asked(), "release-share");
}

TEST(Bucket, CostsWhatItsRequestsCost) {
  BucketStory story;
  story.begin();
  story.sense(HomeKept{HomeKept::Outcome::Committed, 10, 1000, seconds(1), 7, 3});
  story.sense(HomeKept{HomeKept::Outcome::Failed, -1, 0, {}, 2, 1});
  EXPECT_EQ(story.state.facts.progress.ledger.s3_writes, 9U);
  EXPECT_EQ(story.state.facts.progress.ledger.s3_reads, 4U);
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
  ASSERT_EQ(story.asked(), "write-ledger");
  story.sense(HomeKept{HomeKept::Outcome::Failed, -1, 0, {}, 5, 1});
  EXPECT_EQ(story.state.facts.progress.ledger.s3_writes, 14U) << "the next try says so";
}

TEST(Bucket, WhoseHeadIsGoneIsAPersonsToMend) {
  BucketStory story;
  story.begin();
  story.sense(HomeKept{HomeKept::Outcome::Lost, -1, 0, {}});
  story.sense(TrainerEnded{false, true});
  story.answer(Unmounted{});
  while (story.stage() != "surveying" && story.stage() == "reading-fleet")
    story.answer(FleetRead{});
  story.look({});
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_FALSE(story.did<WriteEpoch>()) << "the progress would be lost";
}

}  // namespace
}  // namespace spotter::decide
