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

}  // namespace
}  // namespace spotter::decide
