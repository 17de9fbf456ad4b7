// A job on a share: nothing is moved and nothing attached; its server may hang at any time.
#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

struct ShareStory : Story {
  ShareStory() {
    policy.storage = StorageKind::Share;
    policy.place = "/mnt/share (user@host:/opt/host)";
    policy.has_code = false;
  }
  void prepare(Ledger ledger = {}) {
    EXPECT_EQ(stage(), "preparing");
    answer(Mounted{});
    answer(LedgerRead{ledger});
    answer(CheckpointsVerified{});
  }
  // No metadata service answers, `times` in succession.
  void ask_in_vain(std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i) {
      if (i > 0) wake();
      EXPECT_EQ(asked(), "read-identity");
      answer(EffectFailed{});
    }
  }
  // `spotter fetch`, until its files are asked for.
  void begin_to_send() {
    policy.sends_result = true;
    boot_to_fill();
    EXPECT_EQ(asked(), "prepare-share");
  }
  void train() {
    boot();
    prepare();
    answer(LedgerWritten{});
    answer(TrainerStarted{});
    EXPECT_EQ(stage(), "training");
  }
  void finish() {
    sense(TrainerEnded{true, false});
    EXPECT_EQ(asked(), "sync-storage");
    answer(StorageSynced{});
    EXPECT_TRUE(did<WriteLedger>()->ledger.done);
    answer(LedgerWritten{});
    EXPECT_EQ(asked(), "mark-done");
    EXPECT_TRUE(did<MarkDone>()->volume.empty()) << "a file beside the checkpoints";
    answer(CallAccepted{});
    EXPECT_EQ(stage(), "releasing");
    answer(Unmounted{});
  }
};

TEST(Share, FilesOfAShareAreSentAndNothingElseIsDone) {
  ShareStory story;
  story.begin_to_send();
  story.answer(Mounted{});
  EXPECT_EQ(story.asked(), "fill-volume") << "no ledger, no trainer";
  story.answer(VolumeFilled{});
  EXPECT_EQ(story.asked(), "release-share");
  story.answer(Unmounted{});
  EXPECT_EQ(story.asked(), "exit");
  EXPECT_TRUE(story.state.facts.exit.filled);
}

TEST(Share, AShareThatDoesNotMountSendsNothingAndWaitsForNobody) {
  ShareStory story;
  story.begin_to_send();
  story.answer(EffectFailed{Failure::MountFailed, false, "refused"});
  EXPECT_EQ(story.stage(), "blocked");
  story.wake();
  EXPECT_EQ(story.asked(), "exit");
  EXPECT_FALSE(story.state.facts.exit.filled);
}

TEST(Share, IsPreparedAndReadAndNothingIsAskedOfEc2) {
  ShareStory story;
  story.boot();
  EXPECT_EQ(story.asked(), "prepare-share");
  story.prepare();
  EXPECT_EQ(story.asked(), "write-ledger") << "the attempt is counted before it begins";
}

TEST(Share, IsReleasedOnANoticeAfterTheTrainersEndAndItsAccount) {
  ShareStory story;
  story.train();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  EXPECT_EQ(story.asked(), "stop-trainer");
  story.sense(TrainerEnded{false, true});
  EXPECT_EQ(story.asked(), "write-ledger");
  story.answer(LedgerWritten{});
  EXPECT_EQ(story.asked(), "release-share");
  story.answer(Unmounted{});
  EXPECT_EQ(story.stage(), "released");
}

TEST(Share, IsNeverTidiedNorImagedWhileItIsTrainedOn) {
  ShareStory story;
  story.train();
  for (int i = 1; i < 200; ++i) {
    story.sense(CheckpointMade{i, seconds(1)});
    story.sense(RebalanceRecommended{});
    story.wake();
    EXPECT_EQ(story.did<SurveyStorage>(), nullptr);
    EXPECT_EQ(story.did<CreateSnapshot>(), nullptr);
  }
}

TEST(Share, IsMarkedByAFileAndThenTheFleetIsCancelledAtOnce) {
  ShareStory story;
  story.train();
  story.finish();
  EXPECT_EQ(story.asked(), "cancel-fleet");
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "finished");
}

TEST(Share, WhoseServerIsSilentBlocksAndIsUsedWhenItComesBack) {
  ShareStory story;
  story.boot();
  EffectFailed silent;
  silent.failure = Failure::Unavailable;
  silent.unsettled = true;
  story.answer(silent);
  EXPECT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::ShareSilent);
  story.wake();
  EXPECT_EQ(story.asked(), "read-fleet") << "another may have been launched meanwhile";
  story.answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0});
  story.prepare();
  EXPECT_EQ(story.stage(), "counting-attempt");
}

TEST(Share, ThatCannotBeUsedIsNotLeftMounted) {
  ShareStory story;
  story.boot();
  EffectFailed denied;
  denied.failure = Failure::MountFailed;  // mounted, and nobody may write there
  story.answer(denied);
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::ShareUnusable);
  EXPECT_NE(story.did<ReleaseShare>(), nullptr);
}

TEST(Share, AMountThatIsGivenUpForANoticeIsReleased) {
  ShareStory story;
  story.boot();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
  EXPECT_EQ(story.asked(), "abandon");
  EffectFailed given_up;
  given_up.failure = Failure::Abandoned;
  story.answer(given_up);
  EXPECT_EQ(story.asked(), "release-share");
  story.answer(EffectFailed{});
  EXPECT_EQ(story.stage(), "released") << "nobody waits for our unmount";
}

TEST(Share, ATrainerThatSurvivesSigkillInTheKernelIsLeftBehind) {
  ShareStory story;
  story.train();
  const Time deadline = story.now + seconds(120);
  story.sense(NoticeSeen{InterruptionAction::Terminate, deadline});
  story.wake();
  EXPECT_EQ(story.asked(), "kill-trainer");
  while (story.stage() == "stopping") story.wake();
  EXPECT_EQ(story.stage(), "closing-ledger");
  EXPECT_EQ(story.did<WriteLedger>()->ledger.losses, 1U);
  EXPECT_LE(story.effects[0].deadline, deadline) << "the ledger may hang as well";
  story.answer(EffectFailed{});
  EXPECT_EQ(story.asked(), "release-share");
  EXPECT_LE(story.effects[0].deadline, deadline);
  story.answer(Unmounted{});
  EXPECT_EQ(story.stage(), "released");
}

TEST(Share, IsRefusedToAFleetOfMany) {
  ShareStory story;
  story.sense(Started{});
  story.answer(HostLooked{});
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  FleetRead read{{FleetKind::SpotFleet, "sfr-1"}, 1.0, 2};
  story.answer(read);
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::ManyInstances);
  story.wake();
  EXPECT_EQ(story.asked(), "read-fleet") << "somebody may have lowered it";
  read.target = 1;
  story.answer(read);
  EXPECT_EQ(story.stage(), "preparing");
}

TEST(Share, IsTheEldestsAndTheOthersWaitForItsEnd) {
  ShareStory story;
  story.sense(Started{});
  story.answer(HostLooked{});
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  FleetRead read{{FleetKind::SpotFleet, "sfr-1"}, 1.0, 1, 1};
  story.answer(read);
  EXPECT_EQ(std::get<Waiting>(story.state.stage).why, Wait::ShareHeld);
  story.wake();
  EXPECT_EQ(story.asked(), "read-fleet");
  read.earlier = 0;
  story.answer(read);
  EXPECT_EQ(story.stage(), "preparing");
}

TEST(Share, WorksWhereNoMetadataServiceAnswersAndEndsNoFleet) {
  ShareStory story;
  story.sense(Started{});
  story.answer(HostLooked{});
  for (std::uint32_t i = 1; i < story.policy.identity_tries; ++i) {
    story.answer(EffectFailed{});
    EXPECT_EQ(story.stage(), "identifying");
    story.wake();
  }
  story.answer(EffectFailed{});
  story.prepare();
  story.answer(LedgerWritten{});
  story.answer(TrainerStarted{});
  story.finish();
  EXPECT_EQ(story.asked(), "read-identity") << "it may have hiccuped only";
  for (std::uint32_t i = 1; i < story.policy.identity_tries; ++i) {
    story.answer(EffectFailed{});
    story.wake();
  }
  story.answer(EffectFailed{});
  EXPECT_EQ(story.stage(), "finished");
  story.wake();
  EXPECT_EQ(story.asked(), "read-identity") << "a fleet that nobody ends costs money for ever";
  story.answer(EffectFailed{});
  EXPECT_EQ(story.stage(), "finished");
  story.wake();
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  EXPECT_EQ(story.asked(), "read-fleet");
}

// It could otherwise work beside the instance that has the share, which only the fleet shows.
TEST(Share, AnInstanceWaitsForItsMetadataServiceHoweverLong) {
  ShareStory story;
  story.sense(Started{});
  story.answer(HostLooked{.ec2 = true});
  story.ask_in_vain(5 * story.policy.identity_tries);
  story.wake();
  EXPECT_EQ(story.asked(), "read-identity");
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  EXPECT_EQ(story.asked(), "read-fleet");
}

TEST(Share, AnotherJobsTrainerIsWaitedForUnlessThisAgentIsToLeave) {
  for (const bool leaves : {false, true}) {
    ShareStory story;
    story.policy.foreground = true;
    story.sense(Started{});
    const EffectFailed anothers{Failure::Conflict, false, "a trainer of job one runs here"};
    story.answer(anothers);
    story.wake();
    if (leaves) story.sense(StopRequested{story.now + seconds(60)});
    story.answer(anothers);
    EXPECT_EQ(story.stage(), leaves ? "leaving" : "looking-around");
  }
}

// Its share is in use already, and a notice must find somebody who listens.
TEST(Share, AnInstanceWhoseTrainerRunsWaitsForNoMetadataService) {
  ShareStory story;
  story.sense(Started{});
  HostLooked seen;
  seen.ec2 = seen.share = true;
  seen.trainer = HostLooked::Trainer::Running;
  story.answer(seen);
  story.ask_in_vain(story.policy.identity_tries);
  EXPECT_EQ(story.asked(), "read-ledger");
}

TEST(Share, AMetadataServiceThatComesBackNamesTheFleetToCancel) {
  ShareStory story;
  story.sense(Started{});
  story.answer(HostLooked{});
  story.ask_in_vain(story.policy.identity_tries);
  story.prepare();
  story.answer(LedgerWritten{});
  story.answer(TrainerStarted{});
  story.finish();
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  EXPECT_EQ(story.asked(), "read-fleet");
  story.answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0});
  EXPECT_EQ(story.asked(), "cancel-fleet");
}

TEST(Once, EndsWithTheTrainerAndAsksForNoFleet) {
  ShareStory story;
  story.policy.foreground = true;
  story.sense(Started{});
  story.answer(HostLooked{});
  story.answer(EffectFailed{});  // no metadata service: one question is enough
  story.prepare();
  story.answer(LedgerWritten{});
  story.answer(TrainerStarted{});
  story.finish();
  EXPECT_EQ(story.asked(), "exit");
  EXPECT_TRUE(story.state.facts.exit.done);
}

TEST(Once, EndsWithANoticeAndWithAFailure) {
  for (const bool notice : {true, false}) {
    ShareStory story;
    story.policy.foreground = true;
    story.policy.attempts_without_progress = 1;
    story.sense(Started{});
    story.answer(HostLooked{});
    story.answer(EffectFailed{});
    story.prepare();
    story.answer(LedgerWritten{});
    story.answer(TrainerStarted{});
    if (notice) {
      story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
    }
    story.sense(TrainerEnded{false, notice});
    story.answer(LedgerWritten{});
    story.answer(Unmounted{});
    EXPECT_EQ(story.asked(), "exit");
    EXPECT_FALSE(story.state.facts.exit.done);
    EXPECT_EQ(story.state.facts.exit.surrender, notice ? Surrender::None : Surrender::NoProgress);
  }
}

TEST(Share, AnAgentThatComesBackAdoptsTheTrainerOnItsShare) {
  ShareStory story;
  story.adopt_on_share();
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0, 2});
  story.answer(LedgerRead{});
  EXPECT_EQ(story.stage(), "training");
}

// The trainer's last writes may go with the mount: it says again that it has finished.
TEST(Share, ThatCannotBeUsedForgetsAnEndThatNobodySynced) {
  ShareStory story;
  story.find_finished();
  story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0, 1});
  ASSERT_TRUE(story.state.facts.trainer.ended_success);
  EffectFailed denied;
  denied.failure = Failure::MountFailed;
  story.answer(denied);
  EXPECT_FALSE(story.state.facts.trainer.ended_success);
}

// It was killed, and hangs in the kernel: what it writes there may be torn after the look.
TEST(Share, IsNotVerifiedWhileATrainerOfBeforeWritesThere) {
  ShareStory story;
  story.boot();
  story.answer(Mounted{});
  story.answer(LedgerRead{});
  ASSERT_EQ(story.asked(), "verify-checkpoints");
  EffectFailed runs;
  runs.failure = Failure::TrainerUnstartable;
  story.answer(runs);
  ASSERT_EQ(story.stage(), "blocked");
  EXPECT_EQ(std::get<Blocked>(story.state.stage).why, Block::TrainerUnstartable);
}

// A trainer runs on a share that an earlier agent mounted; its ledger is asked for.
struct AdoptedStory : ShareStory {
  explicit AdoptedStory(bool noticed = false) {
    sense(Started{});
    if (noticed) notice();
    HostLooked seen;
    seen.share = true;
    seen.trainer = HostLooked::Trainer::Running;
    answer(seen);
    answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
    if (!noticed) answer(FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0, 1});
    EXPECT_EQ(asked(), "read-ledger") << "in a notice nothing is asked of EC2 first";
  }
  void notice() { sense(NoticeSeen{InterruptionAction::Terminate, now + seconds(120)}); }
};

TEST(Share, WhoseAccountHangsDoesNotKeepANoticeFromATrainer) {
  AdoptedStory story;
  story.notice();
  EXPECT_EQ(story.asked(), "abandon");
  EffectFailed given_up;
  given_up.failure = Failure::Abandoned;
  story.answer(given_up);
  EXPECT_EQ(story.asked(), "stop-trainer");
}

TEST(Share, WhoseAccountIsReadInANoticeIsNotWaitedForLong) {
  AdoptedStory story(true);
  EXPECT_LE(story.effects[0].deadline, story.now + story.policy.ledger_while_leaving);
}

TEST(Share, WhoseAccountWasNeverReadIsSyncedAndMarkedAllTheSame) {
  AdoptedStory story;
  story.answer(EffectFailed{});
  EXPECT_EQ(story.stage(), "training");
  story.sense(TrainerEnded{true, false});
  EXPECT_EQ(story.asked(), "sync-storage");
  story.answer(StorageSynced{});
  EXPECT_EQ(story.asked(), "mark-done") << "what was not read is not overwritten";
  story.answer(CallAccepted{});
  EXPECT_EQ(story.asked(), "release-share");
}

TEST(Share, IsNotMountedForAMachineThatGoes) {
  for (const bool once : {true, false}) {
    ShareStory story;
    story.policy.foreground = once;
    story.sense(Started{});
    story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + seconds(120)});
    story.answer(HostLooked{});
    story.answer(IdentityRead{kMe, "p3.2xlarge", "us-west-2a", "us-west-2"});
    EffectFailed refused;
    refused.failure = Failure::Refused;
    if (!once) story.answer(refused);
    EXPECT_EQ(story.stage(), once ? "leaving" : "released");
    EXPECT_EQ(story.did<PrepareShare>(), nullptr);
  }
}

}  // namespace
}  // namespace spotter::decide
