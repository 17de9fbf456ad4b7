#include "agent/service/observe/notification_rules.hpp"

#include <gtest/gtest.h>

namespace spotter {
namespace {

using decide::Event;
using decide::Stage;

// A life as the agent sees it: each step leads into the next stage.
struct Life {
  decide::State state;
  decide::Policy policy;
  NotificationRules rules;

  Life() {
    state.facts.instance = InstanceId("i-0123");
    state.facts.zone = Zone("us-west-2b");
  }
  std::string step(Stage into, decide::Happening what = decide::Woke{}) {
    const std::size_t before = state.stage.index();
    state.stage = std::move(into);
    const auto told =
        rules.after(Event{Time(Duration(1000)), {}, std::move(what)}, before, state, policy);
    return told ? std::string(told->event) + ": " + told->words : "";
  }
};

TEST(NotificationRules, the_first_start_is_no_news_and_the_next_machines_is) {
  Life first;
  first.step(decide::StartingTrainer{});
  EXPECT_EQ(first.step(decide::Training{}), "");
  Life next;
  next.state.facts.ledger.releases = 1;
  next.state.facts.ledger.newest_step = 1200;
  next.step(decide::StartingTrainer{});
  EXPECT_EQ(next.step(decide::Training{}),
            "resumed: training goes on on i-0123 in us-west-2b from the checkpoint of step 1200");
  EXPECT_EQ(next.step(decide::Training{}), "");
}

TEST(NotificationRules, lost_without_a_checkpoint) {
  Life life;
  life.state.facts.ledger.losses = 1;
  life.step(decide::StartingTrainer{});
  EXPECT_EQ(life.step(decide::Training{}),
            "resumed: training goes on on i-0123 in us-west-2b from its begin: there was no "
            "checkpoint");
}

TEST(NotificationRules, neither_a_crash_here_nor_an_agent_that_takes_over_is_a_resumption) {
  Life crashed;
  crashed.state.facts.ledger.newest_step = 5;
  crashed.state.facts.crashes = 1;
  crashed.step(decide::StartingTrainer{});
  EXPECT_EQ(crashed.step(decide::Training{}), "");
  Life adopted;
  adopted.state.facts.ledger.newest_step = 5;
  adopted.step(decide::ReadingAccount{});
  EXPECT_EQ(adopted.step(decide::Training{}), "");
}

TEST(NotificationRules, a_notice) {
  Life life;
  life.state.facts.trainer_running = true;
  life.state.facts.step = 77;
  decide::NoticeSeen notice;
  notice.deadline = Time(Duration(119'000));
  EXPECT_EQ(life.step(decide::Stopping{}, notice),
            "notice: interruption notice: i-0123 in us-west-2b ends in 118 s; the trainer is at "
            "step 77 and is asked to checkpoint");
  Life over;
  over.state.facts.done = true;
  EXPECT_EQ(over.step(decide::Finished{}, notice), "");
}

TEST(NotificationRules, the_end_is_told_once_and_before_the_fleet_is_cancelled) {
  Life life;
  life.state.facts.done = true;
  life.state.facts.ledger.seconds = 7200;
  life.state.facts.ledger.dollars = 1.5;
  life.state.facts.ledger.losses = 1;
  EXPECT_EQ(life.step(decide::MarkingDone{}), "");
  EXPECT_EQ(life.step(decide::Unmounting{}),
            "finished: finished, and the result is safe: 2 h of instances, $1.50, 1 "
            "interruption");
  EXPECT_EQ(life.step(decide::CancellingFleet{}), "");
  EXPECT_EQ(life.step(decide::Finished{}), "");
}

TEST(NotificationRules, who_finds_it_done_says_nothing) {
  Life life;
  life.state.facts.done = true;
  EXPECT_EQ(life.step(decide::Unmounting{}), "");
  EXPECT_EQ(life.step(decide::CancellingFleet{}), "");
}

TEST(NotificationRules, what_needs_a_person_is_told_once_until_it_is_something_else) {
  Life life;
  const std::string first = life.step(decide::Blocked{decide::Block::TwoVolumes, {}});
  EXPECT_TRUE(first.starts_with("failed: a person is needed: ")) << first;
  EXPECT_EQ(life.step(decide::Surveying{}), "");
  EXPECT_EQ(life.step(decide::Blocked{decide::Block::TwoVolumes, {}}), "");
  life.step(decide::Surveying{});
  EXPECT_NE(life.step(decide::Blocked{decide::Block::MountFailed, {}}), "");
  life.step(decide::Training{});
  EXPECT_NE(life.step(decide::Blocked{decide::Block::MountFailed, {}}), "");
}

TEST(NotificationRules, given_up) {
  Life life;
  life.state.facts.surrender = decide::Surrender::NoProgress;
  const std::string told = life.step(decide::ClosingAccount{});
  EXPECT_TRUE(told.starts_with("failed: given up: ")) << told;
  EXPECT_EQ(life.step(decide::GaveUp{}), "");
}

}  // namespace
}  // namespace spotter
