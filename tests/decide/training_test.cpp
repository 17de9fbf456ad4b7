// The trainer: started, failing, and found again by a restarted agent.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

TEST(Training, CountsTheAttemptBeforeItBegins) {
  Story story;
  story.train();
  EXPECT_EQ(story.stage(), "training");
  EXPECT_EQ(story.state.facts.progress.ledger.starts_without_progress, 1U);
  story.sense(CheckpointMade{100});
  EXPECT_EQ(story.state.facts.progress.ledger.starts_without_progress, 0U);
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
    EXPECT_EQ(story.asked(), "verify-checkpoints") << "what the crash left may be torn";
    story.answer(CheckpointsVerified{});
    story.answer(CodeFetched{});
    EXPECT_EQ(story.asked(), "write-ledger");
    story.answer(LedgerWritten{});
    story.answer(TrainerStarted{});
  }
  story.sense(TrainerEnded{});
  EXPECT_EQ(story.stage(), "closing-ledger");
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "scale-fleet-to-zero");
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "gave-up");
}

TEST(Training, AMachineThatIsHeldForAPersonDoesNotStayForEver) {
  Story story;
  story.policy.then = GiveUp::Hold;
  story.policy.hold_limit = hours(2);
  story.policy.attempts_without_progress = 1;
  story.train();
  story.sense(TrainerEnded{});
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "gave-up");
  EXPECT_EQ(story.asked(), "");
  EXPECT_EQ(story.state.wake_at, story.now + hours(2));
  EXPECT_NE(describe(story.state, story.policy).find("stays 120 min"), std::string::npos);
  story.wake();
  EXPECT_EQ(story.asked(), "scale-fleet-to-zero");
}

TEST(Training, ATrainerThatHangsIsAskedToSaveAndTheSecondTimeIsTheLast) {
  Story story;
  story.train();
  story.pass(minutes(31));  // a hang is seen after half an hour: that it ran so long is no progress
  story.sense(TrainerHung{});
  EXPECT_NE(story.asked().find("stop-trainer"), std::string::npos);
  EXPECT_EQ(story.stage(), "stopping");
  story.sense(TrainerEnded{false, true});
  EXPECT_EQ(story.stage(), "waiting") << "it is started again, here";
  EXPECT_EQ(story.state.facts.progress.ledger.attempts_without_progress, 1U);
  const auto start = [&] {
    story.wake();
    story.answer(CheckpointsVerified{});
    story.answer(CodeFetched{});
    EXPECT_EQ(story.did<WriteLedger>()->ledger.hangs_without_progress, 1U)
        << "for a machine that follows";
    story.answer(LedgerWritten{});
    story.answer(TrainerStarted{});
  };
  start();
  story.pass(minutes(31));
  story.sense(TrainerHung{});
  EXPECT_EQ(story.state.facts.exit.surrender, Surrender::NoProgress);
  EXPECT_EQ(story.stage(), "stopping");
}

TEST(Training, AHangCountsAlsoWhereItHadToBeKilledOrSavedTheSameStepAgain) {
  Story story;
  story.train();
  story.sense(CheckpointMade{70});
  story.pass(minutes(31));
  story.sense(TrainerHung{});
  story.sense(CheckpointMade{70});
  story.wake();
  EXPECT_NE(story.asked().find("kill-trainer"), std::string::npos);
  story.sense(TrainerEnded{});
  EXPECT_EQ(story.stage(), "waiting") << "it is started again, here";
  EXPECT_EQ(story.state.facts.progress.ledger.hangs_without_progress, 1U);
}

TEST(Training, AHangBeforeANewCheckpointDoesNotCount) {
  Story story;
  story.train();
  story.sense(TrainerHung{});
  story.sense(CheckpointMade{70});
  story.sense(TrainerEnded{false, true});
  EXPECT_EQ(story.state.facts.progress.ledger.hangs_without_progress, 0U);
  EXPECT_EQ(story.stage(), "waiting");
}

TEST(Training, ANoticeWhileAHungTrainerEndsReleasesTheVolume) {
  Story story;
  story.train();
  story.sense(TrainerHung{});
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(110)});
  story.sense(TrainerEnded{false, true});
  EXPECT_EQ(story.stage(), "closing-ledger");
}

// Each of its ends is three rounds without a new checkpoint, and a hang alone takes ten minutes.
TEST(Training, OfAGangThatOnlyEverFailsIsGivenUpHoweverLongEachTryTook) {
  Story story;
  story.policy.settled = Duration::max();  // service/service.cpp
  story.train();
  for (int attempt = 1; attempt <= 2; ++attempt) {
    story.pass(minutes(31));
    story.sense(TrainerEnded{});
    EXPECT_EQ(story.stage(), "waiting");
    story.wake();
    story.answer(CheckpointsVerified{});
    story.answer(CodeFetched{});
    story.answer(LedgerWritten{});
    story.answer(TrainerStarted{});
  }
  story.pass(minutes(31));
  story.sense(TrainerEnded{});
  EXPECT_EQ(story.state.facts.exit.surrender, Surrender::NoProgress);
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
  EXPECT_EQ(story.state.facts.exit.surrender, Surrender::DollarsSpent);
}

TEST(Training, APersonWhoAsksAgainSoonerDoesNotWaitForTheCheckpoint) {
  Story story;
  story.train();
  story.sense(StopRequested{story.now + hours(1)});
  story.sense(StopRequested{story.now + Duration(1)});
  EXPECT_EQ(story.did<KillTrainer>(), nullptr);
  story.sense(StopRequested{story.now});
  story.wake();
  EXPECT_NE(story.did<KillTrainer>(), nullptr);
  story.sense(TrainerEnded{});
  EXPECT_EQ(story.asked(), "write-ledger");
}

TEST(Training, AnEndThatAnEarlierAgentAskedForIsNoFailureOfTheJob) {
  Story story;
  story.train();
  story.sense(TrainerEnded{false, true});
  EXPECT_EQ(story.state.facts.progress.ledger.attempts_without_progress, 0U);
  EXPECT_EQ(story.stage(), "waiting") << "and it is started again";
}

TEST(Crash, ARestartedAgentAdoptsTheRunningTrainer) {
  Story story;
  story.adopt();
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{});
  EXPECT_EQ(story.asked(), "read-ledger");
  story.answer(LedgerRead{});
  EXPECT_EQ(story.stage(), "training");
}

// A notice may come soon, and then it matters.
TEST(Crash, TheLineOfAnAdoptedTrainerIsAskedForUntilItIsKnown) {
  Story story;
  story.watch_adopted();
  const Time adopted = story.now;
  const SeenVolume mine = held(the_volume(), kMe);
  const SeenVolume left = the_copy(Role::Candidate);
  const std::vector<Happening> in_vain = {EffectFailed{}, StorageSurveyed{{{left}, {}}}};
  for (const Happening& answer : in_vain) {
    while (!story.did<SurveyStorage>()) story.wake();
    story.answer(answer);
  }
  while (!story.did<SurveyStorage>()) story.wake();
  EXPECT_LT(story.now - adopted, seconds(30));
  story.answer(StorageSurveyed{{{mine, left}, {}}});
  EXPECT_EQ(story.state.facts.move.lineage, kVolume);
  EXPECT_FALSE(story.did<DeleteVolume>()) << "the trainer has shown nothing yet";
}

// Bucket seed 30002373: it was overwritten, and nothing written at the notice.
TEST(Crash, ALedgerThatWasNotReadIsReadBeforeTheNextStart) {
  Story story;
  story.watch_adopted(EffectFailed{});
  story.sense(TrainerEnded{});
  ASSERT_EQ(story.stage(), "waiting");
  story.wake();
  EXPECT_EQ(story.asked(), "read-ledger");
}

// `explore --faults 2`: such a call was carried out when the result was on the volume, and it was
// free.
TEST(Crash, AnOldPictureOfTheVolumeInUseDeletesNothing) {
  Story story;
  story.watch_adopted();
  while (!story.did<SurveyStorage>()) story.wake();
  story.answer(StorageSurveyed{{{held(the_volume(), kMe)}, {}}});
  story.sense(CheckpointMade{100});
  while (!story.did<SurveyStorage>()) story.wake();
  SeenVolume before = the_copy(Role::Verified);
  before.id = kVolume;
  SeenVolume other = the_copy(Role::Candidate);
  story.answer(StorageSurveyed{{{before, other}, {}}});
  ASSERT_TRUE(story.did<DeleteVolume>());
  EXPECT_EQ(story.did<DeleteVolume>()->volume, other.id);
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
  Ledger ledger;
  ledger.running = true;  // nobody saw its end
  story.mount_and_read(ledger);
  EXPECT_EQ(story.asked(), "sync-storage");
  story.answer(StorageSynced{});
  EXPECT_EQ(story.asked(), "write-ledger");
  EXPECT_TRUE(story.did<WriteLedger>()->ledger.done);
}

TEST(Crash, AnAdoptedTrainerThatFailsAtOnceIsNotForgotten) {
  Story story;
  story.adopt();
  story.sense(TrainerEnded{});
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{});
  EXPECT_EQ(story.asked(), "survey-storage");
}

TEST(Training, AnInstanceLostWithoutNoticeIsNoFailureOfTheJob) {
  Story story;
  Ledger ledger;
  ledger.starts_without_progress = 5;
  story.train(ledger);
  EXPECT_EQ(story.stage(), "training");
  Story again;
  ledger.starts_without_progress = 29;
  again.train(ledger);
  again.sense(TrainerEnded{});
  again.wake();
  again.answer(CheckpointsVerified{});
  again.answer(CodeFetched{});
  EXPECT_EQ(again.state.facts.exit.surrender, Surrender::StartsInVain) << "but not for ever";
}

TEST(Training, AnAccountThatCouldNotBeReadIsNotOverwritten) {
  Story story;
  story.watch_adopted(EffectFailed{}, {});
  story.wake();
  story.answer(StorageSurveyed{{{held(the_volume(), kMe)}, {}}});  // what it has adopted
  story.wake();
  EXPECT_EQ(story.asked(), "read-ledger");
  Ledger ledger;
  ledger.dollars = 7;
  story.answer(LedgerRead{ledger});
  story.wake();
  ASSERT_TRUE(story.did<WriteLedger>());
  EXPECT_GE(story.did<WriteLedger>()->ledger.dollars, 7);
}

TEST(Training, ATrainerThatSpokeAndThenIsSilentForLongIsKilled) {
  Story story;
  story.train();
  story.sense(TrainerProgressed{1});
  EXPECT_TRUE(story.did<WriteLedger>()->ledger.speaks) << "known to the next agent, too";
  const Time spoke = story.now;
  while (!story.did<KillTrainer>()) {
    ASSERT_LT(story.now - spoke, 2 * story.policy.silence_limit);
    story.wake();
    if (story.asked() == "survey-storage") story.answer(StorageSurveyed{{{the_volume()}, {}}});
  }
  EXPECT_GE(story.now - spoke, story.policy.silence_limit);
  story.sense(TrainerEnded{false, false});
  EXPECT_EQ(story.state.facts.progress.ledger.attempts_without_progress, 1U);
}

TEST(Training, AStartThatMayHaveFailedForItsCheckpointIsNoAttempt) {
  Story story;
  story.train();
  story.sense(TrainerEnded{.checkpoint_doubted = true});
  EXPECT_EQ(story.state.facts.progress.ledger.attempts_without_progress, 0U);
}

TEST(Training, ASetupThatFailsIsNoAttemptAndCostsNoLongerThanAnyBlock) {
  Story story;
  story.train();
  const Time began = story.now;
  for (int tries = 0; story.state.facts.exit.surrender == Surrender::None; ++tries) {
    ASSERT_LT(tries, 1000);
    story.pass(std::chrono::minutes(2));
    story.sense(TrainerEnded{.setup_failed = true});
    ASSERT_EQ(story.stage(), "blocked");
    EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::SetupFailed);
    EXPECT_EQ(story.state.facts.progress.ledger.attempts_without_progress, 0U);
    EXPECT_EQ(story.state.facts.progress.ledger.starts_without_progress, 0U);
    story.wake();
    if (story.state.facts.exit.surrender != Surrender::None) break;
    SeenVolume ours = held(the_volume(), kMe);
    ours.generation = 1;
    story.survey({ours});
    story.mount_and_read();
    story.answer(CodeFetched{});
    story.answer(LedgerWritten{});
    story.answer(TrainerStarted{});
    ASSERT_EQ(story.stage(), "training");
  }
  EXPECT_LT(story.now - began, story.policy.blocked_limit + std::chrono::minutes(5));
}

TEST(Training, ATrainerThatOnlyWritesALogMayBeSilentForLong) {
  Story story;
  story.train();
  story.sense(TrainerProgressed{.step = 1, .logged = true});
  EXPECT_EQ(story.state.facts.trainer.step, 1);
  EXPECT_FALSE(story.state.facts.progress.ledger.speaks) << "an epoch may take hours";
  const Time wrote = story.now;
  while (story.now - wrote < 2 * story.policy.silence_limit) {
    story.wake();
    ASSERT_FALSE(story.did<KillTrainer>());
    if (story.asked() == "survey-storage") story.answer(StorageSurveyed{{{the_volume()}, {}}});
  }
}

TEST(Training, CountsTheStepsThatAreTrainedAgainOnWhicheverMachine) {
  Story story;
  story.train({.newest_step = 80, .reached = 100, .repeated = 7});  // lost, 20 steps later
  story.sense(TrainerResumed{80});
  story.sense(TrainerProgressed{85});
  story.sense(TrainerResumed{80});
  story.wake();
  ASSERT_TRUE(story.did<WriteLedger>());
  EXPECT_EQ(story.did<WriteLedger>()->ledger.repeated, 7U + 20 + 5);
  EXPECT_EQ(story.did<WriteLedger>()->ledger.reached, 80);
  story.sense(TrainerProgressed{101});
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + std::chrono::seconds(100)});
  story.sense(TrainerProgressed{103});
  EXPECT_EQ(story.state.facts.progress.ledger.reached, 103) << "it trains on until its stop signal";
}

TEST(Training, CountsTheTimeOfTheTrainerApartFromTheInstances) {
  Story story;
  story.boot();
  story.take_volume({.seconds = 1000, .trained = 900});
  story.pass(seconds(30));  // until the code is there
  story.answer(CodeFetched{});
  story.answer(LedgerWritten{});
  story.answer(TrainerStarted{});
  story.pass(seconds(600));
  story.sense(TrainerEnded{});
  const Ledger& ledger = story.state.facts.progress.ledger;
  EXPECT_DOUBLE_EQ(ledger.trained, 900 + 600);
  EXPECT_GE(ledger.seconds, 1000 + 30 + 600);
  story.pass(seconds(20));  // the next try has not begun
  story.sense(StopRequested{story.now + minutes(1)});
  EXPECT_DOUBLE_EQ(story.state.facts.progress.ledger.trained, 900 + 600);
}

}  // namespace
}  // namespace spotter::decide
