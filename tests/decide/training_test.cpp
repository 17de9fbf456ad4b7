// The trainer: started, failing, finished, and found again by a restarted agent.
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

// Looks as often as the core wants, and finds nothing left.
void tidy_until_quiet(Story& story, const SeenVolume& done) {
  for (int i = 0; i < 100 && story.stage() == "tidying"; ++i) {
    if (!story.state.awaited) story.wake();
    story.answer(StorageSurveyed{{{done}, {}}});
  }
}

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
  // Who had not seen `done` made a copy and deleted the original.
  story.answer(StorageSurveyed{{{the_copy(Role::Verified, 1)}, {}}});
  EXPECT_EQ(story.stage(), "waiting");
  EXPECT_EQ(std::get<Waiting>(story.state.stage).why, Wait::CommitSettling);
}

TEST(Training, AnEndThatAnEarlierAgentAskedForIsNoFailureOfTheJob) {
  Story story;
  story.train();
  story.sense(TrainerEnded{false, true});
  EXPECT_EQ(story.state.facts.progress.ledger.attempts_without_progress, 0U);
  EXPECT_EQ(story.stage(), "waiting") << "and it is started again";
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
  story.sense(Started{});
  HostLooked seen;
  seen.trainer = HostLooked::Trainer::Running;
  seen.mounted = kVolume;
  story.answer(seen);
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
  story.sense(Started{});
  HostLooked seen;
  seen.trainer = HostLooked::Trainer::Running;
  seen.mounted = kVolume;
  story.answer(seen);
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{});
  story.answer(EffectFailed{});
  ASSERT_EQ(story.stage(), "training");
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

}  // namespace
}  // namespace spotter::decide
