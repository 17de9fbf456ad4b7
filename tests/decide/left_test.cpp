// Processes of a trainer that do not end, not even by SIGKILL: the next one cannot start beside
// them.
#include <gtest/gtest.h>

#include "tests/decide/machine.hpp"

namespace spotter::decide {
namespace {

EffectFailed left() {
  EffectFailed failed;
  failed.failure = Failure::ProcessesLeft;
  failed.detail = "processes of the trainer before do not end, not even by SIGKILL: python (pid 9)";
  return failed;
}

// A process that a trainer left waits for a device for ever, on this machine only: a Story with
// GPUs.
struct Stuck : Machine {
  explicit Stuck(Fleet fleet = {FleetKind::Ec2Fleet, "fleet-1"}, bool once = false)
      : Machine({}, fleet) {
    policy.foreground = once;
    answer(GpusFound{});
    answer(CodeFetched{});
    answer(LedgerWritten{});
    EXPECT_EQ(asked(), "start-trainer");
    began = now;
    while (now - began < policy.left_limit) {
      again();
      pass(seconds(20));
    }
  }
  // It is refused, and tried again.
  void again() {
    answer(left());
    ASSERT_EQ(stage(), "waiting") << "for those that only end slowly";
    start_again();
  }
  void start_again() {
    wake();
    SeenVolume ours = held(the_volume(), kMe);
    ours.generation = state.facts.holding.generation;
    survey({ours});
    mount_and_read(state.facts.progress.ledger);
    answer(GpusFound{});
    answer(CodeFetched{});
    answer(LedgerWritten{});
    ASSERT_EQ(asked(), "start-trainer");
  }
  // They keep the storage busy.
  void leave_in_vain() {
    answer(left());
    answer(LedgerWritten{});
    const EffectFailed busy{Failure::Busy};
    for (std::uint32_t tries = 0; tries < policy.stuck_tries; ++tries) {
      ASSERT_EQ(stage(), "unmounting");
      answer(busy);
      wake();
    }
    answer(busy);
  }
  Time began;
};

TEST(AProcessLeftOver, GivesTheMachineBackAndDoesNotEndTheJob) {
  Stuck story;
  story.answer(left());
  ASSERT_NE(story.did<WriteLedger>(), nullptr);
  EXPECT_EQ(story.state.facts.progress.ledger.attempts_without_progress, 1U);
  story.release();
  EXPECT_EQ(story.stage(), "giving-back");
  const std::string words = describe(story.state, story.policy);
  EXPECT_NE(words.find("do not end"), words.npos) << words;
}

TEST(AProcessLeftOver, GivesItBackAlsoWhereItKeepsTheStorageBusy) {
  Stuck story;
  story.leave_in_vain();
  EXPECT_EQ(story.stage(), "giving-back");
}

// Another machine's look came too early and had it detached from this one, where it is mounted.
struct Detached : Machine {
  explicit Detached(Fleet fleet = {FleetKind::Ec2Fleet, "fleet-1"}) : Machine({}, fleet) {
    answer(EffectFailed{Failure::Abandoned});
    SeenVolume going = held(the_volume(), kMe);
    going.attachment = AttachmentState::Busy;
    EffectFailed busy{Failure::Busy};
    busy.detail = "target is busy";
    const Time until = now + 2 * (policy.attaching_limit + policy.left_limit);
    while (now < until && stage() != "closing-ledger" && stage() != "blocked") {
      if (!state.awaited) wake();
      if (asked() == "survey-storage") survey({going});
      if (asked() == "unmount") answer(busy);
    }
  }
};

TEST(AProcessLeftOver, GivesItBackAlsoWhereItsVolumeIsToLeaveIt) {
  Detached story;
  ASSERT_NE(story.did<WriteLedger>(), nullptr) << story.stage();
  EXPECT_EQ(story.state.facts.progress.ledger.attempts_without_progress, 1U);
  EXPECT_TRUE(story.state.facts.exit.unfit);
}

TEST(AProcessLeftOver, KeepsNoVolumeOfAMachineOfNoFleetWithoutAWord) {
  Detached story(Fleet{});
  EXPECT_EQ(story.stage(), "blocked");
  const std::string words = describe(story.state, story.policy);
  EXPECT_NE(words.find("target is busy"), words.npos) << words;
}

TEST(AProcessLeftOver, CountsOnceWhereTheMachineMayNotBeGivenBack) {
  Stuck story;
  for (int times = 0; times < 3; ++times) {
    story.leave_in_vain();
    EXPECT_EQ(story.state.facts.progress.ledger.attempts_without_progress, 1U);
    story.answer(EffectFailed{Failure::Refused});
    ASSERT_EQ(story.stage(), "blocked");
    story.start_again();
  }
  story.answer(TrainerStarted{});
  EXPECT_FALSE(story.state.facts.exit.unfit);
}

TEST(AProcessLeftOver, IsNoReasonToCallItReleasedAfterANotice) {
  Stuck story;
  story.answer(left());
  story.answer(LedgerWritten{});
  const Time deadline = story.now + minutes(2);
  story.sense(NoticeSeen{InterruptionAction::Terminate, deadline});
  const EffectFailed busy{Failure::Busy};
  while (story.now < deadline + story.policy.spared_after) {
    ASSERT_EQ(story.stage(), "unmounting");
    story.answer(busy);
    story.wake();
  }
  story.answer(busy);
  EXPECT_EQ(story.stage(), "giving-back") << "the notice came to nothing";
}

TEST(AProcessLeftOver, LetsTheAgentOfOneExperimentLeave) {
  Stuck story({}, true);
  story.answer(left());
  story.release();
  EXPECT_EQ(story.stage(), "leaving");
  EXPECT_TRUE(story.state.facts.exit.unfit);
}

TEST(AProcessLeftOver, OnAMachineOfNoFleetIsForAPerson) {
  Stuck story(Fleet{});
  story.answer(left());
  EXPECT_EQ(story.stage(), "blocked");
  story.wake();
  EXPECT_EQ(story.asked(), "read-identity") << "its fleet's tags may have come";
}

TEST(AProcessLeftOver, IsForgottenOnceATrainerHasStarted) {
  Stuck story;
  story.answer(TrainerStarted{});
  EXPECT_EQ(story.state.facts.trouble.left_since, kNever);
}

}  // namespace
}  // namespace spotter::decide
