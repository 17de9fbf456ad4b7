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
    state.facts.identity.instance = InstanceId("i-0123");
    state.facts.identity.zone = Zone("us-west-2b");
  }
  std::string step(Stage into, decide::Happening what = decide::Woke{}) {
    const std::size_t before = state.stage.index();
    state.stage = std::move(into);
    const auto sent =
        rules.after(Event{Time(Duration(1000)), {}, std::move(what)}, before, state, policy);
    return sent ? std::string(sent->event) + ": " + sent->words : "";
  }
};

TEST(NotificationRules, the_first_start_is_no_news_and_the_next_machines_is) {
  Life first;
  first.step(decide::StartingTrainer{});
  EXPECT_EQ(first.step(decide::Training{}), "");
  Life next;
  next.state.facts.progress.ledger.releases = 1;
  next.state.facts.progress.ledger.newest_step = 1200;
  next.step(decide::StartingTrainer{});
  EXPECT_EQ(next.step(decide::Training{}),
            "resumed: training goes on on i-0123 in us-west-2b from the checkpoint of step 1200");
  EXPECT_EQ(next.step(decide::Training{}), "");
}

TEST(NotificationRules, lost_without_a_checkpoint) {
  Life life;
  life.state.facts.progress.ledger.losses = 1;
  life.step(decide::StartingTrainer{});
  EXPECT_EQ(life.step(decide::Training{}),
            "resumed: training goes on on i-0123 in us-west-2b from its begin: there was no "
            "checkpoint");
}

TEST(NotificationRules, neither_a_crash_here_nor_an_agent_that_takes_over_is_a_resumption) {
  Life crashed;
  crashed.state.facts.progress.ledger.newest_step = 5;
  crashed.state.facts.trouble.crashes = 1;
  crashed.step(decide::StartingTrainer{});
  EXPECT_EQ(crashed.step(decide::Training{}), "");
  Life adopted;
  adopted.state.facts.progress.ledger.newest_step = 5;
  adopted.step(decide::ReadingLedger{});
  EXPECT_EQ(adopted.step(decide::Training{}), "");
}

TEST(NotificationRules, a_notice) {
  Life life;
  life.state.facts.trainer.running = true;
  life.state.facts.trainer.step = 77;
  decide::NoticeSeen notice;
  notice.deadline = Time(Duration(119'000));
  EXPECT_EQ(life.step(decide::Stopping{}, notice),
            "notice: interruption notice: i-0123 in us-west-2b ends in 118 s; the trainer is at "
            "step 77 and is asked to checkpoint");
  Life over;
  over.state.facts.exit.done = true;
  EXPECT_EQ(over.step(decide::Finished{}, notice), "");
}

TEST(NotificationRules, the_end_is_sent_once_and_before_the_fleet_is_cancelled) {
  Life life;
  life.state.facts.exit.done = true;
  life.state.facts.progress.ledger.seconds = 7200;
  life.state.facts.progress.ledger.dollars = 1.5;
  life.state.facts.progress.ledger.losses = 1;
  EXPECT_EQ(life.step(decide::MarkingDone{}), "");
  EXPECT_EQ(life.step(decide::Unmounting{}),
            "finished: finished, and the result is safe: 2 h of instances, $1.50, 1 "
            "interruption");
  EXPECT_EQ(life.step(decide::CancellingFleet{}), "");
  EXPECT_EQ(life.step(decide::Finished{}), "");
}

TEST(NotificationRules, who_finds_it_done_says_nothing) {
  Life life;
  life.state.facts.exit.done = true;
  EXPECT_EQ(life.step(decide::Unmounting{}), "");
  EXPECT_EQ(life.step(decide::CancellingFleet{}), "");
}

TEST(NotificationRules, what_needs_a_person_is_sent_once_until_it_is_something_else) {
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
  life.state.facts.exit.surrender = decide::Surrender::NoProgress;
  const std::string sent = life.step(decide::ClosingLedger{});
  EXPECT_TRUE(sent.starts_with("failed: given up: ")) << sent;
  EXPECT_EQ(life.step(decide::GaveUp{}), "");
}

TEST(NotificationRules, that_the_deadline_cannot_be_kept_is_sent_at_once_and_once) {
  NotificationRules rules;
  launch::OwnOutlook outlook{.work = launch::Remaining{5.2, 0.34},
                             .due = wire::WallTime(std::chrono::seconds(0)),
                             .within = {},
                             .latest = {}};
  EXPECT_FALSE(rules.of_deadline(outlook));
  outlook.trouble = launch::Outlook::Trouble::Late;
  const auto sent = rules.of_deadline(outlook);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->event, "deadline");
  EXPECT_NE(sent->words.find("34 % left, about 5.2 h; THE DEADLINE CANNOT BE KEPT"),
            std::string::npos)
      << sent->words;
  EXPECT_FALSE(rules.of_deadline(outlook));
  outlook.trouble = launch::Outlook::Trouble::Budget;
  EXPECT_TRUE(rules.of_deadline(outlook)) << "that is another matter";
}

}  // namespace
}  // namespace spotter
