// A job with a deadline, as the watcher sees it: what is asked of the planner, and what follows.
#include "agent/launch/deadline.hpp"

#include <gtest/gtest.h>

#include "agent/launch/fallback.hpp"

namespace spotter::launch {
namespace {

using namespace std::chrono_literals;
using Action = Fallback::Action;
using State = WatchedMachine::State;
using Trouble = Outlook::Trouble;
using capacity::Use;

const config::OnDemand when_needed{config::OnDemand::When::WhenNeeded, {}};
const FleetId own("fleet-own"), extra("fleet-on-demand");
const InstanceId machine("i-0123456789abcdef0");
const wire::WallTime noon(1'764'000'000s);

config::Deadline deadline_of(Duration work) {
  config::Deadline deadline;
  deadline.work = work;
  return deadline;
}

TEST(WorkLeft, IsEstimatedUntilThePaceIsKnown) {
  const config::Deadline deadline = deadline_of(40h);
  EXPECT_DOUBLE_EQ(work_left({}, deadline).hours, 40);
  EXPECT_DOUBLE_EQ(work_left({.step = 250, .total = 1000, .trained = 0.1}, deadline).hours, 30);
  EXPECT_DOUBLE_EQ(work_left({.step = 250, .total = 1000, .trained = 5}, deadline).hours, 15);
  EXPECT_DOUBLE_EQ(work_left({.step = 250, .total = 1000, .trained = 5}, deadline).part, 0.75);
}

TEST(WorkLeft, IsByTheSlowerPaceAndCountsNoStepTwice) {
  const config::Deadline deadline = deadline_of(40h);
  const Progress there{.step = 200, .total = 1000, .repeated = 50, .trained = 5};
  EXPECT_DOUBLE_EQ(work_left(there, deadline).hours, 16) << "50 steps an hour were trained";
  Progress slow = there;
  slow.steps_an_hour = 40;
  EXPECT_DOUBLE_EQ(work_left(slow, deadline).hours, 20);
}

TEST(WorkLeft, IsNeverNothingWhileTheJobIsNotDone) {
  const config::Deadline deadline = deadline_of(40h);
  EXPECT_GT(work_left({.step = 1000, .total = 1000, .trained = 5}, deadline).hours, 0);
  EXPECT_GT(work_left({.trained = 100}, deadline).hours, 0) << "launch.work was too little";
  EXPECT_DOUBLE_EQ(work_left({.trained = 10}, deadline).hours, 30) << "no total is known";
  EXPECT_DOUBLE_EQ(work_left({.step = 300, .repeated = 100, .trained = 8}, deadline).hours, 34)
      << "what was lost was no work";
}

Prospect prospect_of(std::chrono::minutes time, double work) {
  Prospect prospect;
  prospect.due = noon + time;
  prospect.work = {work, 0.5};
  prospect.on_demand = 1;
  prospect.spot = 0.39;
  prospect.zone = "us-west-2b";
  return prospect;
}

TEST(Expect, IsBetweenSpotAndOnDemandAndFallsWithTheTime) {
  const Prospect much = prospect_of(20h, 8), little = prospect_of(10h, 8);
  const Expectation expected = expect(much, noon, 4, 3);
  EXPECT_GT(expected.dollars, 8 * much.spot);
  EXPECT_LT(expected.dollars, expect(little, noon, 4, 3).dollars);
  EXPECT_LT(expect(little, noon, 4, 3).dollars, 8 + little.start + 1e-9);
  EXPECT_LT(expected.latest, much.due - 8h);
  EXPECT_GT(expected.latest, much.due - 9h);
}

TEST(Expect, GoesByWhatIsBelievedOfSpotCapacity) {
  const Prospect much = prospect_of(20h, 8);
  EXPECT_NEAR(expect(much, noon, 1000, 0.01).dollars, much.spot * (8 + much.start), 0.1);
  EXPECT_NEAR(expect(much, noon, 0.1, 1000).dollars, 8 + much.start, 0.3);
}

TEST(Expect, WithoutTimeToWaitItIsAllOnDemand) {
  const Prospect none = prospect_of(495min, 8);
  EXPECT_DOUBLE_EQ(expect(none, noon, 4, 3).dollars, 8 + none.start);
}

Sight sight_of(Use runs, bool spot) {
  return {.now = noon, .runs = runs, .spot = spot, .before = {}, .looked = {}, .had_spot = false};
}

TEST(Outlook, WaitsWhileThereIsTimeAndSaysUntilWhen) {
  const Outlook it = look_ahead(prospect_of(20h, 10), sight_of(Use::Nothing, false));
  EXPECT_EQ(it.choice, Use::Nothing);
  EXPECT_EQ(it.trouble, Trouble::None);
  // 10 h of work, a start of 15 min, two looks, a minute for EC2.
  EXPECT_EQ(it.latest, noon + 20h - 10h - 15min - 20min - 1min);
  EXPECT_EQ(text_of(it),
            "50 % left, about 10.0 h; on demand from " + wire::to_rfc3339(it.latest) +
                " at the latest; spot in us-west-2b is 61 % cheaper and lasted 4.0 h on average");
}

TEST(Outlook, IsOnDemandWhenAnotherLookWouldBeTooLate) {
  const auto choice = [](std::chrono::minutes time, Use runs, bool spot) {
    return look_ahead(prospect_of(time, 10), sight_of(runs, spot)).choice;
  };
  EXPECT_EQ(choice(10h + 35min, Use::Nothing, false), Use::OnDemand);
  EXPECT_EQ(choice(10h + 35min, Use::Spot, true), Use::Spot) << "a loss leaves time for a start";
  EXPECT_EQ(choice(10h + 20min, Use::Spot, true), Use::OnDemand);
  EXPECT_EQ(choice(10h + 10min, Use::Spot, true), Use::Spot) << "too late to leave it";
  EXPECT_EQ(choice(10h + 30min, Use::OnDemand, true), Use::OnDemand) << "no time to return";
  EXPECT_EQ(choice(14h, Use::OnDemand, true), Use::Spot);
}

TEST(Outlook, SaysAtOnceWhatCannotBeKept) {
  const auto trouble = [](std::chrono::minutes time, Use runs) {
    return look_ahead(prospect_of(time, 10), sight_of(runs, runs == Use::Spot)).trouble;
  };
  EXPECT_EQ(trouble(10h + 10min, Use::Nothing), Trouble::Late);
  EXPECT_EQ(trouble(10h + 16min, Use::Nothing), Trouble::None);
  EXPECT_EQ(trouble(10h + 10min, Use::OnDemand), Trouble::None);
  EXPECT_EQ(trouble(9h, Use::OnDemand), Trouble::Late);
  EXPECT_NE(text_of(look_ahead(prospect_of(9h, 10), sight_of(Use::OnDemand, false)))
                .find("THE DEADLINE CANNOT BE KEPT"),
            std::string::npos);
}

TEST(Outlook, OfDeadlineAndBudgetTheOneGivesWayThatJobYamlNames) {
  Prospect prospect = prospect_of(10h + 30min, 10);
  prospect.dollars_left = 8;
  const Sight nothing = sight_of(Use::Nothing, false);
  const Outlook kept = look_ahead(prospect, nothing);
  EXPECT_EQ(kept.trouble, Trouble::Budget);
  EXPECT_EQ(kept.choice, Use::Nothing) << "the budget is kept";
  prospect.gives_way = config::Deadline::GivesWay::Dollars;
  const Outlook spent = look_ahead(prospect, nothing);
  EXPECT_EQ(spent.trouble, Trouble::Budget);
  EXPECT_EQ(spent.choice, Use::OnDemand);
  prospect.dollars_left = 11;
  EXPECT_EQ(look_ahead(prospect, nothing).trouble, Trouble::None);
}

TEST(Outlook, NothingNewIsPaidForWhileItIsNotKnownWhatIsSpent) {
  Prospect prospect = prospect_of(10h + 30min, 10);
  prospect.spent_unknown = true;
  EXPECT_EQ(look_ahead(prospect, sight_of(Use::Nothing, false)).choice, Use::Nothing);
  EXPECT_EQ(look_ahead(prospect, sight_of(Use::OnDemand, false)).choice, Use::OnDemand);
  prospect.gives_way = config::Deadline::GivesWay::Dollars;
  EXPECT_EQ(look_ahead(prospect, sight_of(Use::Nothing, false)).choice, Use::OnDemand);
}

TEST(Outlook, RemembersWhatWasSeenOfSpotInstances) {
  Sight sight = sight_of(Use::Spot, true);
  const Outlook first = look_ahead(prospect_of(40h, 10), sight);
  sight.before = first;
  sight.looked = noon;
  sight.had_spot = true;
  sight.now = noon + 30min;
  const Outlook second = look_ahead(prospect_of(40h, 10), sight);
  EXPECT_NEAR(second.available.hours, first.available.hours + 0.5, 0.1);
  sight.spot = false;
  sight.runs = Use::Nothing;
  const Outlook lost = look_ahead(prospect_of(40h, 10), sight);
  EXPECT_NEAR(lost.available.ends, second.available.ends + 1, 0.01);
  sight.now = noon + 3h;
  EXPECT_DOUBLE_EQ(look_ahead(prospect_of(40h, 10), sight).available.hours, first.available.hours)
      << "nobody watched meanwhile";
}

TEST(Outlook, IsReadAsItWasWrittenAndFitsIntoATag) {
  Outlook it = look_ahead(prospect_of(20h, 10), sight_of(Use::Nothing, false));
  it.trouble = Trouble::Budget;
  it.choice = Use::OnDemand;
  EXPECT_EQ(outlook_of(tag_of(it)), it);
  it = {.choice = Use::OnDemand,
        .trouble = Trouble::Budget,
        .work = {9876.543, 0.98765},
        .latest = noon,
        .on_demand = 123.456,
        .spot = 98.7654,
        .zone = "us-gov-west-1-lax-1a",
        .available = {123.456, 98765.43},
        .absent = {0.000123456, 98765.43}};
  const WatchMark mark{noon, WatchMark::Spot::Starts, noon, machine, it};
  const std::string tag = tag_of(mark);
  EXPECT_LE(tag.size(), 256U) << tag;
  EXPECT_EQ(tag.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  " +-=._:/@"),
            tag.npos);
  ASSERT_TRUE(mark_of(tag));
  EXPECT_EQ(mark_of(tag)->instance, machine);
  EXPECT_EQ(mark_of(tag)->outlook->choice, Use::OnDemand);
  for (const char* wrong : {"", "use=spot", "use=never had=1/1", "had=0/0"})
    EXPECT_FALSE(outlook_of(wrong)) << wrong;
}

class Job {
 public:
  Job() {
    seen.now = noon;
    seen.own = WatchedFleet{own, 1};
    seen.prospect = prospect_of(20h, 10);
  }
  Fallback look(std::chrono::seconds later = 0s) {
    seen.now += later;
    Fallback next = decide_fallback(when_needed, 15min, seen);
    seen.mark = mark_of(tag_of(next.mark));
    return next;
  }
  void add(bool spot, State state) { seen.machines.push_back({machine, spot, state, seen.now}); }
  void on_demand() {
    seen.beside = {{extra, 1}};
    seen.machines.push_back({InstanceId("i-0aaaaaaaaaaaaaaaa"), false, State::Running, seen.now});
  }
  // The watcher has asked for an on-demand instance, and lets the job's own fleet rest.
  void rest() {
    seen.prospect = prospect_of(10h + 20min, 10);
    add(true, State::Running);
    on_demand();
    look();
    EXPECT_EQ(look(5min).action, Action::Rest);
    seen.own->target = 0;
    std::erase_if(seen.machines, [](const WatchedMachine& it) { return it.spot; });
  }
  Watched seen;
};

TEST(WhenNeeded, AsksForAnOnDemandInstanceOnlyWhenTheDeadlineDoes) {
  Job job;
  EXPECT_EQ(job.look().action, Action::Wait);
  EXPECT_EQ(job.look(5h).action, Action::Wait);
  const Fallback next = job.look(4h + 24min);
  EXPECT_EQ(next.action, Action::AskOnDemand);
  EXPECT_EQ(next.reason,
            "no spot instance since 2025-11-24T16:00:00Z: for the deadline an on-demand instance "
            "is asked for");
}

TEST(WhenNeeded, ReturnsToASpotInstanceThatHasSettledIfThereIsTime) {
  Job job;
  job.seen.prospect = prospect_of(14h, 10);
  job.on_demand();
  EXPECT_EQ(job.look().action, Action::End) << "4 h to wait for a cheaper one";
  job.seen.prospect = prospect_of(10h + 50min, 10);
  EXPECT_EQ(job.look().reason, "on demand, by fleet-on-demand, until there is spot capacity");
  job.seen.prospect = prospect_of(11h + 40min, 10);
  job.add(true, State::Running);
  EXPECT_EQ(job.look().action, Action::Wait);
  const Fallback next = job.look(5min);
  EXPECT_EQ(next.action, Action::End);
  EXPECT_EQ(next.fleets, std::vector{extra});
}

TEST(WhenNeeded, LeavesASpotInstanceAndLetsItsFleetRestWhenTheDeadlineAsks) {
  Job job;
  job.seen.prospect = prospect_of(10h + 20min, 10);
  job.add(true, State::Running);
  EXPECT_EQ(job.look().action, Action::AskOnDemand);
  job.seen.beside = {{extra, 1}};
  EXPECT_EQ(job.look().action, Action::Wait) << "it has no machine yet";
  job.on_demand();
  EXPECT_EQ(job.look().action, Action::Wait) << "it has not booted yet";
  EXPECT_EQ(job.look(4min).action, Action::Wait);
  const Fallback next = job.look(1min);
  EXPECT_EQ(next.action, Action::Rest);
  EXPECT_EQ(next.mark.spot, WatchMark::Spot::Rests);
  job.seen.own->target = 0;
  EXPECT_EQ(job.look().action, Action::Wait) << "nobody stopped it";
  job.seen.machines.clear();
  job.seen.beside.clear();
  EXPECT_EQ(job.look(1min).action, Action::Wake);
  job.seen.own->target = 1;
  EXPECT_NE(job.look().mark.spot, WatchMark::Spot::Rests);
}

TEST(WhenNeeded, AGroupDoesNotRest) {
  Job job;
  job.seen.own->rests = false;
  job.seen.prospect = prospect_of(10h + 20min, 10);
  job.add(true, State::Running);
  job.on_demand();
  EXPECT_EQ(job.look().action, Action::Wait);
}

TEST(WhenNeeded, AJobThatWasStoppedGetsNothing) {
  Job job;
  job.seen.own->target = 0;
  EXPECT_EQ(job.look(12h).action, Action::Wait);
  job.on_demand();
  EXPECT_EQ(job.look(2min).fleets, std::vector{extra});
}

TEST(WhenNeeded, OfTwoOnDemandFleetsTheLaterOneEndsWhileTheOwnOneRests) {
  Job job;
  job.rest();
  job.seen.beside.push_back({FleetId("fleet-later"), 1});
  EXPECT_EQ(job.look().fleets, std::vector{FleetId("fleet-later")});
}

TEST(WhenNeeded, AFleetThatRestsWakesWhenTheOnDemandMachineFails) {
  Job job;
  job.rest();
  EXPECT_EQ(job.look().action, Action::Wait);
  job.seen.machines.back().state = State::Ending;
  EXPECT_EQ(job.look().action, Action::Wake);
  job.seen.machines.back().state = State::Starting;
  EXPECT_EQ(job.look().action, Action::Wait) << "another one comes";
}

// It lives, but its agent never began, or hangs.
TEST(WhenNeeded, AFleetThatRestsWakesOnceWhenTheOnDemandInstancePublishesNothing) {
  Job job;
  job.rest();
  const InstanceId paid = job.seen.machines.back().id;
  const wire::WallTime rested = job.seen.now;
  job.seen.publication = Published{{}, {}, false, machine, rested - 1min};  // of the spot instance
  EXPECT_EQ(job.look(30min).action, Action::Wait) << "nobody could read what is published";
  job.seen.publication_known = true;
  job.seen.now = rested;
  EXPECT_EQ(job.look(24min).action, Action::Wait) << "a start of 15 min, and 10 more";
  const Fallback next = job.look(1min);
  EXPECT_EQ(next.action, Action::Wake);
  EXPECT_EQ(next.reason, "the on-demand instance i-0aaaaaaaaaaaaaaaa has published nothing since " +
                             wire::to_rfc3339(rested) + ": fleet-own asks for spot capacity again");
  ASSERT_TRUE(next.silence);
  job.seen.own->target = 1;
  job.seen.own->silence = silence_of(tag_of(*next.silence));
  EXPECT_EQ(job.look(1min).action, Action::Wait);
  job.add(true, State::Running);
  for (int look = 0; look < 10; ++look)
    EXPECT_EQ(job.look(10min).action, Action::Wait) << "and does not rest for it again";
  EXPECT_NE(job.look().reason.find("the spot instance i-0123456789abcdef0 stays beside it"),
            std::string::npos);
  job.seen.publication = Published{{}, {}, false, paid, job.seen.now};
  EXPECT_EQ(job.look(1min).action, Action::Rest) << "it was only slow";
}

TEST(WhenNeeded, AnOnDemandInstanceThatPublishesIsNotSilent) {
  Job job;
  job.rest();
  job.seen.publication_known = true;
  for (int look = 0; look < 10; ++look) {
    job.seen.publication = Published{{}, {}, false, job.seen.machines.back().id, job.seen.now};
    EXPECT_EQ(job.look(20min).action, Action::Wait);
  }
  EXPECT_EQ(job.look(5min).action, Action::Wake) << "it did, and hangs now";
}

TEST(WhenNeeded, OfWhatIsSilentTheTagIsReadAsItWasWritten) {
  const Silence silence{noon, machine};
  EXPECT_EQ(tag_of(silence), "silent 2025-11-24T16:00:00Z i-0123456789abcdef0");
  EXPECT_EQ(silence_of(tag_of(silence)), silence);
  for (const char* wrong : {"", "no", "2025-11-24T16:00:00Z", "silent ", "silent noon i-1",
                            "silent 2025-11-24T16:00:00Z", "silent 2025-11-24T16:00:00Z x"})
    EXPECT_FALSE(silence_of(wrong)) << wrong;
}

TEST(WhenNeeded, ARestTeachesNothingOfTheSpotCapacity) {
  Job job;
  job.rest();
  const auto before = job.seen.mark->outlook;
  job.look(10min);
  const auto after = job.look(50min).mark.outlook;
  EXPECT_DOUBLE_EQ(after->absent.hours, before->absent.hours);
  EXPECT_DOUBLE_EQ(after->available.ends, before->available.ends) << "it was left, not lost";
}

}  // namespace
}  // namespace spotter::launch
