// An experiment that the sweep's rule ends before its time: it is done, and no failure.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

TEST(RuledOut, WhatTheSweepRulesOutIsDoneAndNoFailure) {
  Story story;
  story.train();
  story.sense(CheckpointMade{250});
  const Ledger before = story.state.facts.progress.ledger;
  story.sense(RuledOut{"4 of 9 were better"});
  EXPECT_EQ(story.asked(), "stop-trainer");
  story.sense(RuledOut{"with the next report"});
  EXPECT_EQ(story.asked(), "") << "it is asked once";
  story.sense(CheckpointMade{300});
  story.sense(TrainerEnded{false, true});
  EXPECT_EQ(story.asked(), "sync-storage");
  story.answer(StorageSynced{});
  const Ledger after = story.did<WriteLedger>()->ledger;
  EXPECT_TRUE(after.done);
  EXPECT_EQ(after.stopped_early.view(), "4 of 9 were better");
  EXPECT_EQ(after.newest_step, 300);
  EXPECT_EQ(after.attempts_without_progress, 0U);
  EXPECT_EQ(after.losses, before.losses);
  EXPECT_EQ(after.releases, before.releases) << "nor an interruption";
  story.answer(LedgerWritten{});
  EXPECT_EQ(story.asked(), "mark-done");
}

TEST(RuledOut, WhatIsRuledOutAndComesToItsEndHasFinished) {
  Story story;
  story.train();
  story.sense(RuledOut{"4 of 9 were better"});
  story.sense(TrainerEnded{true, false});
  story.answer(StorageSynced{});
  EXPECT_TRUE(story.did<WriteLedger>()->ledger.done);
  EXPECT_EQ(story.did<WriteLedger>()->ledger.stopped_early.view(), "");
}

// Neither a crash nor a kill makes it worth more training, and a notice on the way changes nothing.
TEST(RuledOut, WhatIsRuledOutEndsHoweverItsTrainerDoes) {
  for (const TrainerEnded how : {TrainerEnded{false, false}, TrainerEnded{false, true}}) {
    Story story;
    story.train();
    story.sense(RuledOut{"4 of 9 were better"});
    const Time deadline = story.now + seconds(118);
    story.sense(NoticeSeen{InterruptionAction::Terminate, deadline});
    EXPECT_EQ(story.did<StopTrainer>()->deadline, deadline);
    story.wake();
    EXPECT_EQ(story.asked(), "kill-trainer");
    story.sense(how);
    EXPECT_EQ(story.asked(), "sync-storage");
    story.answer(StorageSynced{});
    EXPECT_TRUE(story.did<WriteLedger>()->ledger.done);
    EXPECT_TRUE(story.state.facts.exit.done);
  }
}

TEST(RuledOut, ATrainerThatIsStuckAfterItWasRuledOutKeepsTheVolume) {
  Story story;
  story.train();
  story.sense(RuledOut{"4 of 9 were better"});
  for (std::uint32_t tries = 0; tries < story.policy.stuck_tries + 3; ++tries) story.wake();
  EXPECT_EQ(story.stage(), "stopping");
  EXPECT_FALSE(story.state.facts.exit.done);
}

// Its ledger is not known: the reason could not be kept.
TEST(RuledOut, NothingIsRuledOutBeforeTheLedgerIsRead) {
  Story story;
  story.train();
  story.state.facts.progress.ledger_known = false;
  story.sense(RuledOut{"4 of 9 were better"});
  EXPECT_EQ(story.stage(), "training");
}

}  // namespace
}  // namespace spotter::decide
