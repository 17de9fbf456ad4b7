// The GPUs that the job needs: awaited before each start, and a machine without them given back.
#include <gtest/gtest.h>

#include "tests/decide/machine.hpp"

namespace spotter::decide {
namespace {

EffectFailed absent() {
  EffectFailed failed;
  failed.failure = Failure::GpusAbsent;
  failed.detail = "7 of 8 GPUs answer";
  return failed;
}

TEST(Gpus, AreSeenBeforeTheCodeIsFetched) {
  Machine story;
  EXPECT_EQ(story.stage(), "awaiting-gpus");
  EXPECT_EQ(story.asked(), "await-gpus");
  story.answer(GpusFound{});
  EXPECT_EQ(story.stage(), "fetching-code");
}

TEST(Gpus, OfAJobThatNeedsNoneAreNotLookedFor) {
  Story story;
  story.train();
  EXPECT_EQ(story.stage(), "training");
}

TEST(Gpus, ThatAreMissingGiveTheMachineBackWithNothingOfTheJobOnIt) {
  Machine story;
  story.answer(absent());
  ASSERT_NE(story.did<WriteLedger>(), nullptr);
  EXPECT_EQ(story.did<WriteLedger>()->ledger.attempts_without_progress, 1U);
  story.release();
  EXPECT_EQ(story.stage(), "giving-back");
  ASSERT_NE(story.did<GiveBackInstance>(), nullptr);
  EXPECT_EQ(story.did<GiveBackInstance>()->instance, kMe);
  story.answer(CallAccepted{});
  story.sense(StopRequested{story.now + seconds(10)});  // EC2 ends it
  EXPECT_EQ(story.asked(), "exit");
}

TEST(Gpus, ThatAreMissingInACapacityReservationAreForAPerson) {
  Machine story;
  story.state.facts.identity.once = true;
  story.answer(absent());
  EXPECT_EQ(story.stage(), "blocked") << "no fleet would launch another machine";
}

// `spotter gang` has ended with the exit status that says so.
TEST(AGangsMachine, ThatIsTheReasonForTwoEndsIsGivenBack) {
  Story story;
  story.train();
  story.sense(TrainerEnded{false, false, true});
  EXPECT_EQ(story.stage(), "closing-ledger");
  story.answer(LedgerWritten{});
  story.answer(Unmounted{});
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "giving-back");
  ASSERT_NE(story.did<GiveBackInstance>(), nullptr);
  EXPECT_EQ(story.did<GiveBackInstance>()->instance, kMe);
  const std::string words = describe(story.state, story.policy);
  EXPECT_NE(words.find("its gang stopped because of it"), words.npos) << words;
}

// Its share may be what hangs. A session that was blocked for long would end the fleet.
TEST(AGangsMachine, IsGivenBackAlsoWhereItsLedgerCannotBeWritten) {
  Story story;
  story.train();
  story.sense(TrainerEnded{false, false, true});
  EXPECT_EQ(story.stage(), "closing-ledger");
  EffectFailed silent;
  silent.failure = Failure::ShareSilent;
  silent.detail = "the server does not answer";
  story.answer(silent);
  story.answer(Unmounted{});
  story.answer(CallAccepted{});
  EXPECT_EQ(story.stage(), "giving-back");
}

// It ended while no agent watched it, or the agent that gave the machine back was killed.
TEST(AGangsMachine, IsGivenBackAlsoByTheNextAgent) {
  const HostLooked ended{.trainer = HostLooked::Trainer::Ended, .ended = {false, false, true}};
  Machine story({}, {FleetKind::Ec2Fleet, "fleet-1"}, ended);
  story.release();
  EXPECT_EQ(story.stage(), "giving-back");
  ASSERT_NE(story.did<GiveBackInstance>(), nullptr);
  EXPECT_EQ(Machine({}, Fleet{}, ended).stage(), "awaiting-gpus") << "no fleet replaces it";
}

// In the moments before the next agent has taken the trainer over.
TEST(AGangsMachine, IsGivenBackAlsoIfItsTrainerEndsBeforeTheFleetIsRead) {
  Story story;
  story.adopt();
  story.answer(IdentityRead{kMe, "p4d.24xlarge", "us-west-2a", "us-west-2"});
  story.sense(TrainerEnded{false, false, true});
  story.answer(FleetRead{{FleetKind::Ec2Fleet, "fleet-1"}, 1.0});
  SeenVolume mine = held(the_volume(), kMe);
  story.survey({mine});
  story.answer(CallAccepted{});  // its claim
  mine.generation = 1;
  story.survey({mine});
  story.mount_and_read();
  EXPECT_EQ(story.stage(), "closing-ledger");
}

// Its termination protection, say. The fleet is also that of the machines that train.
TEST(AGangsMachine, ThatMayNotBeGivenBackEndsNoFleet) {
  const HostLooked ended{.trainer = HostLooked::Trainer::Ended, .ended = {false, false, true}};
  Machine story({}, {FleetKind::Ec2Fleet, "fleet-1"}, ended);
  story.release();
  EffectFailed refused;
  refused.failure = Failure::Refused;
  refused.detail = "the instance may not be terminated";
  for (const Time end = story.now + 2 * story.policy.blocked_limit; story.now < end; story.wake()) {
    ASSERT_EQ(story.stage(), "giving-back");
    ASSERT_EQ(story.asked(), "give-back-instance");
    story.answer(refused);
    const std::string words = describe(story.state, story.policy);
    EXPECT_NE(words.find("refused: the instance may not be terminated"), words.npos) << words;
  }
  EXPECT_EQ(story.state.facts.exit.surrender, Surrender::None);
  story.answer(CallAccepted{});
  EXPECT_EQ(describe(story.state, story.policy).find("refused"), std::string::npos);
}

TEST(AGangsMachine, ThatMayNotBeGivenBackLeavesAsAsked) {
  const HostLooked ended{.trainer = HostLooked::Trainer::Ended, .ended = {false, false, true}};
  Machine story({}, {FleetKind::Ec2Fleet, "fleet-1"}, ended);
  story.release();
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + minutes(2)});
  EffectFailed refused;
  refused.failure = Failure::Refused;
  story.answer(refused);
  EXPECT_EQ(story.stage(), "released");
}

// The first trainer's end came before its fleet was known, and another one has run since.
TEST(AGangsMachine, IsNotGivenBackForTheTrainerBeforeTheLast) {
  const HostLooked ended{.trainer = HostLooked::Trainer::Ended, .ended = {false, false, true}};
  Machine story({}, Fleet{}, ended);
  story.answer(GpusFound{});
  story.answer(CodeFetched{});
  story.answer(LedgerWritten{});
  story.answer(TrainerStarted{});
  story.sense(FleetRead{{FleetKind::Ec2Fleet, "fleet-1"}, 1.0});  // its tag has come
  story.sense(TrainerEnded{false, false, false});
  EXPECT_EQ(story.stage(), "waiting");
  story.wake();
  story.answer(CheckpointsVerified{std::nullopt, 0});
  EXPECT_EQ(story.stage(), "awaiting-gpus");
}

TEST(AGangsMachine, OfNoFleetIsNotGivenBack) {
  Story story;
  story.train();
  story.state.facts.identity.fleet = {};
  story.sense(TrainerEnded{false, false, true});
  EXPECT_EQ(story.stage(), "waiting") << "to start it again";
}

TEST(AGangsMachine, KnowsWhenItStartsWhetherAFleetReplacesIt) {
  for (const Fleet& fleet : {Fleet{FleetKind::Ec2Fleet, "fleet-1"}, Fleet{}}) {
    Machine story({}, fleet);
    story.answer(GpusFound{});
    story.answer(CodeFetched{});
    story.answer(LedgerWritten{});
    ASSERT_NE(story.did<StartTrainer>(), nullptr);
    EXPECT_EQ(story.did<StartTrainer>()->replaced, fleet.kind != FleetKind::None);
  }
}

TEST(Gpus, ADriverThatHangsIsAsGoodAsNone) {
  Machine story;
  EffectFailed hangs;
  hangs.unsettled = true;
  story.answer(hangs);
  story.release();
  EXPECT_EQ(story.stage(), "giving-back");
}

TEST(Gpus, AMachineIsNotGivenBackForAnotherTrouble) {
  Machine story;
  EffectFailed no_memory;
  no_memory.failure = Failure::MountFailed;
  story.answer(no_memory);
  EXPECT_EQ(story.stage(), "blocked");
}

TEST(Gpus, TheMachineIsGivenBackUntilItEnds) {
  Machine story;
  story.answer(absent());
  story.release();
  story.answer(EffectFailed{});  // throttled
  story.wake();
  EXPECT_EQ(story.asked(), "give-back-instance");
  story.answer(CallAccepted{});
  story.wake();
  EXPECT_EQ(story.asked(), "give-back-instance");
}

TEST(Gpus, AMissingPermissionIsForAPerson) {
  Machine story;
  story.answer(absent());
  story.release();
  EffectFailed refused;
  refused.failure = Failure::Refused;
  story.answer(refused);
  EXPECT_EQ(story.stage(), "blocked");
}

TEST(Gpus, OneMachineAfterTheOtherWithoutThemEndsTheJobByItsPolicy) {
  Ledger ledger;
  ledger.attempts_without_progress = 2;
  Machine story(ledger);
  story.answer(absent());
  EXPECT_EQ(story.state.facts.exit.surrender, Surrender::GpusAbsent);
  story.release();
  EXPECT_EQ(story.asked(), "scale-fleet-to-zero");
}

TEST(Gpus, AMachineThatCannotBeCountedIsNotGivenBack) {
  Machine story;
  story.answer(absent());
  EXPECT_EQ(story.stage(), "closing-ledger");
  EffectFailed full;
  full.failure = Failure::MountFailed;
  full.detail = "no space left on device";
  story.answer(full);
  EXPECT_EQ(story.stage(), "blocked");
}

TEST(Gpus, AMachineOfNoFleetIsNobodysToEnd) {
  Machine story({}, Fleet{});
  story.answer(absent());
  EXPECT_EQ(story.stage(), "blocked");
  story.wake();
  EXPECT_EQ(story.asked(), "read-identity") << "its tag may have come";
  story.answer(IdentityRead{kMe, "p4d.24xlarge", "us-west-2a", "us-west-2"});
  story.answer(FleetRead{});
  EXPECT_EQ(story.asked(), "survey-storage");
}

// A process waits for the GPU that fell off the bus, and never ends.
TEST(Gpus, AMachineWithoutThemIsGivenBackAlsoWhereItsStorageStaysInUse) {
  Machine story;
  story.answer(absent());
  story.answer(LedgerWritten{});
  const EffectFailed busy{Failure::Busy};
  while (story.stage() == "unmounting") {
    story.answer(busy);
    if (story.stage() == "unmounting") story.wake();
  }
  ASSERT_EQ(story.stage(), "giving-back");
  story.sense(StopRequested{story.now + seconds(2)});
  EXPECT_EQ(story.asked(), "exit");
}

TEST(Gpus, ANoticeComesFirst) {
  Machine story;
  story.sense(NoticeSeen{InterruptionAction::Terminate, story.now + minutes(2)});
  EXPECT_EQ(story.asked(), "abandon");
  EffectFailed given_up;
  given_up.failure = Failure::Abandoned;
  story.answer(given_up);
  story.release();
  EXPECT_EQ(story.stage(), "released");
}

}  // namespace
}  // namespace spotter::decide
