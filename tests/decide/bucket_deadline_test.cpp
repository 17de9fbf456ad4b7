// A home in a bucket before a deadline: what becomes of a write that is under way.
#include <gtest/gtest.h>

#include "tests/decide/bucket_story.hpp"

namespace spotter::decide {
namespace {

// The write before it took so long; one is under way, and a newer checkpoint made, when the trainer
// ends ten seconds after a notice of two minutes.
struct BehindStory : BucketStory {
  explicit BehindStory(Duration took) {
    begin();
    checkpoint(10);
    kept(10, took);
    checkpoint(20);
    under_way = state.facts.home.keeping;
    pass(seconds(5));
    deadline = now + seconds(120);
    sense(NoticeSeen{InterruptionAction::Terminate, deadline});
    pass(seconds(10));
    checkpoint(30);
    sense(TrainerEnded{false, true});
  }
  EffectId under_way;
  Time deadline;
};

TEST(Bucket, EndsTheWriteUnderWayForANewerOneThatCanMakeItAlone) {
  BehindStory story(seconds(60));
  ASSERT_TRUE(story.did<WriteLedger>());
  const Time before = story.now;
  story.wake();
  EXPECT_EQ(story.now, before);
  ASSERT_TRUE(story.did<Abandon>());
  EXPECT_EQ(story.did<Abandon>()->effect, story.under_way);
  EXPECT_EQ(story.stage(), "closing-ledger");
  story.answer(LedgerWritten{});
  EXPECT_EQ(story.asked(), "release-share");
}

TEST(Bucket, WaitsForTheWriteUnderWayWhileThereIsTimeForBoth) {
  BehindStory story(seconds(30));
  EXPECT_FALSE(story.did<Abandon>());
  const Time ended = story.now;
  story.wake();
  EXPECT_GT(story.now, ended + seconds(30));
  EXPECT_LT(story.now, story.deadline - seconds(40)) << "the newer one needs these";
  ASSERT_TRUE(story.did<Abandon>()) << "it takes much longer than the one before";
  EXPECT_EQ(story.did<Abandon>()->effect, story.under_way);
}

TEST(Bucket, GivesTheNewerOneAllTheTimeOnceTheWriteUnderWayIsThere) {
  BehindStory story(seconds(30));
  story.pass(seconds(10));
  story.kept(20, seconds(30));
  story.wake();
  EXPECT_GT(story.now, story.deadline - seconds(5));
}

TEST(Bucket, LeavesTheWriteUnderWayItsTimeWhereNothingNewerCanMakeIt) {
  BehindStory story(seconds(100));
  story.wake();
  EXPECT_GT(story.now, story.deadline - seconds(5));
  EXPECT_LT(story.now, story.deadline);
  ASSERT_TRUE(story.did<Abandon>());
  EXPECT_EQ(story.did<Abandon>()->effect, story.under_way);
  story.answer(EffectFailed{Failure::Unavailable, true, {}});
  EXPECT_EQ(story.asked(), "release-share") << "the next machine need not wait for its lease";
}

// The same in a session that has brought no checkpoint there yet: `before` the notice the write
// began.
struct UnknownWayStory : BucketStory {
  explicit UnknownWayStory(Duration before) {
    begin();
    checkpoint(20);
    under_way = state.facts.home.keeping;
    pass(before);
    sense(NoticeSeen{InterruptionAction::Terminate, now + seconds(120)});
    pass(seconds(5));
    checkpoint(30);
    sense(TrainerEnded{false, true});
  }
  EffectId under_way;
};

// Seed 692720917970: the older one took a minute, and there was none left for the newer one.
TEST(Bucket, EndsAWriteThatHasOnlyBegunForANewerOne) {
  UnknownWayStory story(seconds(5));
  const Time before = story.now;
  story.wake();
  EXPECT_EQ(story.now, before);
  ASSERT_TRUE(story.did<Abandon>());
  EXPECT_EQ(story.did<Abandon>()->effect, story.under_way);
  EXPECT_EQ(story.stage(), "closing-ledger");
}

TEST(Bucket, LeavesAWriteItsTimeThatMayBeHalfDone) {
  UnknownWayStory story(seconds(60));
  const Time before = story.now;
  story.wake();
  EXPECT_GT(story.now, before + seconds(100));
}

TEST(Bucket, ThatIsWrittenForLongIsReleasedBeforeTheDeadline) {
  BucketStory story;
  story.bring();
  ASSERT_EQ(story.stage(), "counting-attempt");
  const EffectId asked = story.state.awaited;
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  story.wake();
  EXPECT_LT(story.now, story.state.facts.exit.notice->deadline);
  ASSERT_TRUE(story.did<Abandon>());
  EXPECT_EQ(story.did<Abandon>()->effect, asked);
  story.answer(EffectFailed{Failure::Abandoned, true, {}});
  story.answer(EffectFailed{Failure::Unavailable, true, {}});
  EXPECT_EQ(story.asked(), "release-share");
}

TEST(Bucket, IsWrittenOnWhenTheNoticeIsWithdrawn) {
  BucketStory story;
  story.begin();
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  story.sense(NoticeWithdrawn{});
  story.wake();
  EXPECT_EQ(story.asked(), "");
  story.answer(LedgerWritten{});
  EXPECT_EQ(story.stage(), "marking-done");
}

// Seed 912007984: it was released without its newest checkpoint, and then the next notice came.
TEST(Bucket, OfAWithdrawnNoticeGetsItsCheckpointBeforeItIsReleased) {
  BucketStory story;
  story.begin();
  story.checkpoint(10);
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  story.sense(TrainerEnded{false, true});
  ASSERT_EQ(story.stage(), "closing-ledger");
  story.sense(NoticeWithdrawn{});
  for (int tries = 0; tries < 10; ++tries) {
    story.answer(EffectFailed{Failure::Unavailable, true, {}});
    ASSERT_EQ(story.stage(), "closing-ledger");
    story.wake();
    ASSERT_TRUE(story.did<WriteLedger>());
  }
  story.kept(10);
  story.answer(LedgerWritten{});
  EXPECT_EQ(story.asked(), "release-share");
}

// Seed 30003800: the agent before was killed, and this one could not read the ledger yet. Nothing
// is kept that is not known.
TEST(Bucket, WhoseLedgerIsUnknownReadsItWhileTheTrainerEnds) {
  BucketStory story;
  story.adopt_on_share();
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0});
  story.answer(EffectFailed{Failure::Busy});
  ASSERT_EQ(story.stage(), "training");
  story.checkpoint(10);
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(100)});
  EXPECT_EQ(story.asked(), "stop-trainer read-ledger");
  story.answer(LedgerRead{{.newest_step = 5}});
  story.sense(TrainerEnded{false, true});
  ASSERT_EQ(story.stage(), "closing-ledger");
  EXPECT_EQ(story.did<WriteLedger>()->ledger.newest_step, 10);
}

// A session began, and found the home to be this machine's still: what is here may be newer.
struct HadStory : BucketStory {
  HadStory() {
    boot();
    Epoch epoch;
    epoch.state = Epoch::State::Using;
    epoch.holder = kMe;
    epoch.number = 7;
    look(epoch);
  }
  void notice() {
    deadline = now + seconds(120);
    sense(NoticeSeen{InterruptionAction::Terminate, deadline});
  }
  Time deadline;
};

// Seed 800019067: the newer checkpoint was not sent.
TEST(Bucket, ThatMayBeNewerHereIsSentThoughANoticeComesAsItsLedgerIsRead) {
  HadStory story;
  story.answer(EpochWritten{});
  story.answer(Mounted{});
  ASSERT_EQ(story.stage(), "reading-ledger");
  story.notice();
  EXPECT_EQ(story.asked(), "");
  story.answer(LedgerRead{});
  EXPECT_EQ(story.stage(), "closing-ledger");
  EXPECT_EQ(story.asked(), "write-ledger");
}

TEST(Bucket, ThatMayBeNewerHereIsSentThoughANoticeComesAsItIsBroughtUp) {
  HadStory story;
  story.answer(EpochWritten{});
  ASSERT_EQ(story.stage(), "preparing");
  story.notice();
  EXPECT_EQ(story.asked(), "");
  story.answer(Mounted{});
  EXPECT_EQ(story.asked(), "read-ledger");
  story.answer(LedgerRead{});
  EXPECT_EQ(story.asked(), "write-ledger");
}

TEST(Bucket, ThatMayBeNewerHereIsSentThoughANoticeComesAsItIsTaken) {
  HadStory story;
  ASSERT_EQ(story.stage(), "writing-epoch");
  story.notice();
  story.answer(EpochWritten{});
  EXPECT_EQ(story.asked(), "prepare-share");
}

// Seed 830005447, of a judge that asks for it.
TEST(Bucket, ThatMayBeNewerHereIsBroughtUpAfterANoticeToo) {
  HadStory story;
  story.answer(EpochWritten{});
  story.answer(EffectFailed{Failure::Unavailable, false, {}});
  ASSERT_EQ(story.stage(), "waiting");
  story.notice();
  EXPECT_EQ(story.asked(), "prepare-share");
  story.answer(EffectFailed{Failure::Unavailable, false, {}});
  EXPECT_EQ(story.asked(), "write-epoch") << "it is tried once";
}

// Seed 830002774: the machine had no memory for it.
TEST(Bucket, WhoseLedgerCannotBeReadAfterANoticeReadsItAgainInTime) {
  HadStory story;
  story.answer(EpochWritten{});
  story.answer(Mounted{});
  story.notice();
  while (story.stage() == "reading-ledger") {
    ASSERT_LT(story.now, story.deadline);
    story.pass(seconds(5));
    story.answer(EffectFailed{Failure::Unavailable, false, {}});
    if (story.stage() != "reading-ledger") break;
    story.wake();
    EXPECT_EQ(story.asked(), "read-ledger");
  }
  EXPECT_EQ(story.asked(), "release-share");
  EXPECT_LT(story.now, story.deadline);
}

TEST(Bucket, ThatIsBroughtUpForLongIsReleasedInTime) {
  HadStory story;
  story.answer(EpochWritten{});
  story.notice();
  story.wake();
  EXPECT_LE(story.now, story.deadline - seconds(90)) << "the next machine waits for it";
  ASSERT_TRUE(story.did<Abandon>());
  story.answer(EffectFailed{Failure::Abandoned, false, {}});
  EXPECT_EQ(story.asked(), "release-share");
}

TEST(Bucket, OfAnotherMachineIsNotBroughtAfterANotice) {
  BucketStory story;
  story.boot();
  story.look({});
  story.answer(EpochWritten{});
  ASSERT_EQ(story.stage(), "preparing");
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  EXPECT_EQ(story.asked(), "abandon");
}

// Seed 800000111: the first one was too short for it, and the second came a moment later.
TEST(Bucket, IsWrittenAgainWhenALaterDeadlineLeavesTimeForIt) {
  BucketStory story;
  story.begin();
  story.checkpoint(10);
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(5)});
  story.sense(TrainerEnded{false, true});
  ASSERT_EQ(story.asked(), "write-ledger");
  story.pass(seconds(4));
  story.answer(EffectFailed{Failure::Abandoned, true, {}});
  ASSERT_EQ(story.stage(), "releasing");
  story.sense(NoticeSeen{InterruptionAction::Stop, story.now + seconds(120)});
  EXPECT_EQ(story.stage(), "closing-ledger");
  EXPECT_EQ(story.asked(), "write-ledger");
}

// Seed 880008092: the job was given up, and S3 did not take it at once.
TEST(Bucket, OfAJobThatIsGivenUpIsWrittenAgainWhenANoticeComes) {
  BucketStory story;
  story.policy.hours_limit = 1;
  story.begin();
  story.pass(hours(2));
  story.wake();
  ASSERT_EQ(story.stage(), "stopping");
  story.sense(TrainerEnded{false, true});
  story.answer(EffectFailed{Failure::Unavailable, true, {}});
  ASSERT_EQ(story.stage(), "releasing");
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  EXPECT_EQ(story.asked(), "write-ledger");
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  story.answer(EpochWritten{});
  EXPECT_EQ(story.asked(), "scale-fleet-to-zero");
}

// Seed 830004920: the first notice was too short for all, and EC2 did not terminate the machine.
TEST(Bucket, OfASparedMachineIsSentAtTheNextNotice) {
  BucketStory story;
  story.begin();
  story.checkpoint(10);
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(5)});
  story.sense(TrainerEnded{false, true});
  story.pass(seconds(5));
  story.answer(EffectFailed{Failure::Abandoned, true, {}});
  story.answer(Unmounted{});
  ASSERT_EQ(story.stage(), "released");
  story.wake();
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  story.answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0});
  EXPECT_EQ(story.asked(), "prepare-share");
  story.answer(Mounted{});
  story.answer(LedgerRead{});
  EXPECT_EQ(story.asked(), "write-ledger");
}

}  // namespace
}  // namespace spotter::decide
