#include "agent/launch/fallback.hpp"

#include <gtest/gtest.h>

namespace spotter::launch {
namespace {

using namespace std::chrono_literals;
using Action = Fallback::Action;
using State = WatchedMachine::State;

const config::OnDemand after_20m{config::OnDemand::When::After, 20min};
const FleetId own("fleet-own"), extra("fleet-on-demand");
const InstanceId machine("i-0123456789abcdef0");

// A job as AWS shows it, look by look; what a look writes down is what the next one reads.
class Job {
 public:
  Job() {
    seen_.now = wire::WallTime(1'764'000'000s);
    seen_.own = WatchedFleet{own, 1};
  }

  Fallback look(std::chrono::seconds later = 0s) {
    seen_.now += later;
    Fallback next = decide_fallback(wanted, start, seen_);
    seen_.mark = next.mark;
    return next;
  }
  void spot(State state, std::chrono::seconds ago = 0s) { add(true, state, ago); }
  void on_demand(State state) {
    seen_.beside = {{extra, 1}};
    add(false, state, 0s);
  }
  void nothing_runs() { seen_.machines.clear(); }

  config::OnDemand wanted = after_20m;
  Duration start = 15min;
  Watched seen_;

 private:
  void add(bool spot, State state, std::chrono::seconds ago) {
    seen_.machines.push_back({machine, spot, state, seen_.now - ago});
  }
};

TEST(Fallback, AsksForOneWhenNoSpotInstanceWasThereForSoLong) {
  Job job;
  EXPECT_EQ(job.look().action, Action::Wait);
  EXPECT_EQ(job.look(19min).action, Action::Wait);
  const Fallback next = job.look(1min);
  EXPECT_EQ(next.action, Action::AskOnDemand);
  EXPECT_EQ(next.reason,
            "no spot instance since 2025-11-24T16:00:00Z: an on-demand instance is asked for");
}

TEST(Fallback, SaysFromWhenOnItWillAsk) {
  Job job;
  EXPECT_EQ(job.look().reason,
            "no spot instance since 2025-11-24T16:00:00Z: on demand from 2025-11-24T16:20:00Z");
}

TEST(Fallback, EachSpotInstanceStartsTheTimeOver) {
  Job job;
  job.look();
  job.spot(State::Starting);
  EXPECT_EQ(job.look(15min).action, Action::Wait);
  EXPECT_EQ(job.look(1min).mark.spot, WatchMark::Spot::Starts);
  job.nothing_runs();
  EXPECT_EQ(job.look(1h).action, Action::Wait);
  EXPECT_EQ(job.look(19min).action, Action::Wait);
  EXPECT_EQ(job.look(1min).action, Action::AskOnDemand);
}

TEST(Fallback, AnInstanceThatCameAndWentBetweenTwoLooksCounts) {
  Job job;
  job.look();
  job.seen_.now += 18min;
  job.spot(State::Ended, 5min);
  EXPECT_EQ(job.look().action, Action::Wait);
  EXPECT_EQ(job.look(19min).action, Action::Wait);
  EXPECT_EQ(job.look(1min).action, Action::AskOnDemand);
}

TEST(Fallback, WithoutOnDemandCapacityItAsksInAnotherPlace) {
  Job job;
  job.look();
  job.look(20min);
  job.seen_.beside = {{extra, 1}};
  job.seen_.beside[0].created = job.seen_.now;
  EXPECT_EQ(job.look(5min).action, Action::Wait) << "there is no other place";
  job.seen_.beside[0].created = job.seen_.now;
  job.seen_.next_on_demand = "us-east-2";
  EXPECT_EQ(job.look(1min).action, Action::Wait) << "EC2 may not show it yet";
  const Fallback next = job.look(1min);
  EXPECT_EQ(next.action, Action::AskElsewhere);
  EXPECT_EQ(next.fleets, std::vector{extra});
  EXPECT_EQ(
      next.reason,
      "no on-demand instance came of fleet-on-demand since 2025-11-24T16:25:00Z: one is asked "
      "for in us-east-2");
  job.on_demand(State::Starting);
  job.seen_.beside[0].created = job.seen_.now;
  EXPECT_EQ(job.look(1h).action, Action::Wait) << "it has come";
  job.seen_.machines.back().state = State::Ended;
  EXPECT_EQ(job.look(1min).action, Action::Wait) << "EC2 is about to replace it";
  job.nothing_runs();
  EXPECT_EQ(job.look(1h).action, Action::AskElsewhere);
}

TEST(Fallback, OneThatIsTakenAwayIsNoneAnyMore) {
  Job job;
  job.spot(State::Ending, 1h);
  job.look();
  EXPECT_EQ(job.look(20min).action, Action::AskOnDemand);
}

TEST(Fallback, AClockThatWentBackStartsTheTimeOver) {
  Job job;
  job.look();
  EXPECT_EQ(job.look(-1h).mark.since, job.seen_.now);
}

TEST(Fallback, TheOnDemandInstanceStaysUntilASpotInstanceHasRunForAWhile) {
  Job job;
  job.on_demand(State::Running);
  EXPECT_EQ(job.look().action, Action::Wait);
  EXPECT_EQ(job.look(24h).action, Action::Wait);
  job.spot(State::Starting);
  EXPECT_EQ(job.look(10min).action, Action::Wait) << "it has no machine yet";
  job.seen_.machines.back().state = State::Running;
  EXPECT_EQ(job.look().action, Action::Wait);
  EXPECT_EQ(job.look(4min).action, Action::Wait);
  const Fallback next = job.look(1min);
  EXPECT_EQ(next.action, Action::End);
  EXPECT_EQ(next.fleets, std::vector{extra});
  EXPECT_EQ(next.reason,
            "the on-demand instance ends: the spot instance i-0123456789abcdef0 is there");
}

TEST(Fallback, ASpotInstanceThatIsTakenAwayAtOnceCostsNoMove) {
  Job job;
  job.on_demand(State::Running);
  job.spot(State::Running);
  EXPECT_EQ(job.look().action, Action::Wait);
  EXPECT_EQ(job.look(1min).action, Action::Wait);
  job.seen_.machines.back().state = State::Ending;
  EXPECT_EQ(job.look(10min).action, Action::Wait);
}

TEST(Fallback, WaitsNoLongerForASpotInstanceToSettleThanForOneToCome) {
  EXPECT_EQ(settling_time({config::OnDemand::When::After, 2s}, 15min), 2s);
  EXPECT_EQ(settling_time(after_20m, 1min), 5min);
}

TEST(Fallback, OfTwoThatWereAskedForAtOnceTheLaterOneEnds) {
  Job job;
  job.seen_.beside = {{extra, 1}, {FleetId("fleet-later"), 1}};
  EXPECT_EQ(job.look().fleets, std::vector{FleetId("fleet-later")});
}

TEST(Fallback, AJobThatWasGivenUpGetsNoInstance) {
  Job job;
  job.seen_.own->target = 0;
  job.look();
  EXPECT_EQ(job.look(24h).action, Action::Wait);
  job.on_demand(State::Running);
  EXPECT_EQ(job.look().fleets, std::vector{extra}) << "a person stopped it";
  job.seen_.own->target = 1;
  job.seen_.beside = {{extra, 0}};
  EXPECT_EQ(job.look(24h).action, Action::Wait) << "its agent gave up on the on-demand machine";
}

TEST(Fallback, NothingIsLeftOfAJobThatIsDoneOrWhoseFleetHasEnded) {
  Job job;
  job.on_demand(State::Running);
  job.seen_.done = true;
  EXPECT_EQ(job.look().action, Action::Wait) << "its agent deletes what a move has left";
  EXPECT_EQ(job.look(19min).action, Action::Wait);
  EXPECT_EQ(job.look(1min).fleets, (std::vector{own, extra})) << "no agent is there";
  job.nothing_runs();
  EXPECT_EQ(job.look().fleets, (std::vector{own, extra}));
  job.seen_.done = false;
  job.seen_.own.reset();
  EXPECT_EQ(job.look().fleets, std::vector{extra});
  job.seen_.beside.clear();
  job.spot(State::Ending);
  EXPECT_EQ(job.look().action, Action::Wait) << "a launch waits for its end, too";
  job.nothing_runs();
  EXPECT_EQ(job.look().action, Action::Over);
}

// The agent of the spot instance has ended the job's own fleet; that of the other one is dead.
TEST(Fallback, TheOnDemandInstanceOfAJobThatIsDoneEndsWithItsOwnFleet) {
  Job job;
  job.on_demand(State::Running);
  job.seen_.done = true;
  job.seen_.own.reset();
  EXPECT_EQ(job.look().fleets, std::vector{extra});
}

TEST(Fallback, AJobIsStoppedOnlyWhenSeveralLooksSeeIt) {
  Job job;
  job.on_demand(State::Running);
  job.look();
  job.seen_.own->target = 0;
  for (int look = 0; look < 4; ++look)
    EXPECT_EQ(job.look(20s).action, Action::Wait) << "a rest, whose mark is not seen yet?";
  EXPECT_EQ(job.look(20s).fleets, std::vector{extra});
}

TEST(Fallback, AMarkThatAnotherWatcherWroteOverMakesNoStopOfARest) {
  Job job;
  job.on_demand(State::Running);
  job.spot(State::Running);
  job.look();
  job.nothing_runs();
  job.seen_.own->target = 0;
  job.seen_.own->rested = job.seen_.now;
  EXPECT_EQ(job.look(2min).action, Action::Wake) << "and no end: its on-demand machine has gone";
  EXPECT_EQ(job.seen_.mark->spot, WatchMark::Spot::Rests);
}

// A description of EC2 may be older than a move: then each place is at target 0.
TEST(Fallback, AFleetThatHasJustBeenLeftToRestIsNotWokenAtOnce) {
  Job job;
  job.seen_.own = WatchedFleet{own, 0, true, job.seen_.now};
  EXPECT_EQ(job.look(30s).action, Action::Wait);
  EXPECT_EQ(job.look(30s).action, Action::Wake);
}

// Its agent, or `spotter stop`, ends the fleet of one region before those of the others.
TEST(Fallback, NoFleetIsWokenWhileTheJobHasNoneInAnotherRegion) {
  Job job;
  job.seen_.own = WatchedFleet{own, 0, true, job.seen_.now};
  job.seen_.elsewhere = true;
  job.seen_.missing = "us-east-2";
  for (int look = 0; look < 3; ++look) EXPECT_EQ(job.look(10min).action, Action::Wait);
  EXPECT_EQ(job.look().reason,
            "the on-demand instance has gone, but fleet-own is not woken: the job has no fleet in "
            "us-east-2, where it may have ended; `spotter launch` starts it again, `spotter stop "
            "job.yaml` ends the rest");
  job.seen_.missing.clear();
  EXPECT_EQ(job.look().action, Action::Wake);
}

TEST(Fallback, GivenUpOnDemandInAnotherRegionTheJobAsksNowhere) {
  Job job;
  job.seen_.beside = {{extra, 0}};
  EXPECT_EQ(job.look().action, Action::Wait) << "its agent lowers both in one region";
  job.seen_.elsewhere = true;
  EXPECT_EQ(job.look().action, Action::GiveUp);
  job.seen_.own->target = 0;
  EXPECT_EQ(job.look(20s).action, Action::Wait);
  EXPECT_EQ(job.look(2min).fleets, std::vector{extra});
}

TEST(Fallback, TheTagOfARestIsTakenBackWhenTheFleetHasWokenForAWhile) {
  Job job;
  job.seen_.own->rested = job.seen_.now;
  EXPECT_FALSE(job.look(1min).forget_rest) << "its target of 0 may not be shown yet";
  EXPECT_TRUE(job.look(2min).forget_rest);
  job.seen_.own->target = 0;
  EXPECT_FALSE(job.look(10min).forget_rest);
}

TEST(Fallback, TheTimeInWhichAJobIsStoppedDoesNotCount) {
  Job job;
  job.look();
  job.seen_.own->target = 0;
  job.look(19min);
  job.look(24h);
  job.seen_.own->target = 1;
  EXPECT_EQ(job.look(1min).action, Action::Wait);
  EXPECT_EQ(job.look(20min).action, Action::AskOnDemand);
}

TEST(Fallback, WithoutTheKeyNothingIsAskedForAndWhatIsLeftEnds) {
  for (const auto when : {config::OnDemand::When::Never, config::OnDemand::When::Always}) {
    Job job;
    job.wanted = {when, {}};
    EXPECT_EQ(job.look(24h).action, Action::Over);
    job.on_demand(State::Running);
    EXPECT_EQ(job.look().fleets, std::vector{extra});
  }
}

// A laptop's clock, and that of AWS, which says when an instance was launched.
TEST(Fallback, AClockThatIsWrongByAnHourDoesNotMatter) {
  for (const auto wrong : {1h, -1h}) {
    Job job;
    job.on_demand(State::Running);
    job.spot(State::Running, wrong);
    EXPECT_EQ(job.look().action, Action::Wait);
    EXPECT_EQ(job.look(5min).action, Action::End);
  }
}

TEST(Fallback, ThereIsNothingToWatchWhenLooksSaySoForAMinute) {
  const std::chrono::steady_clock::time_point begin(1h);
  OverSince over;
  EXPECT_FALSE(over.see(true, begin));
  EXPECT_FALSE(over.see(true, begin + 1s));
  EXPECT_FALSE(over.see(false, begin + 50s)) << "the new fleet is there";
  EXPECT_FALSE(over.see(true, begin + 70s));
  EXPECT_TRUE(over.see(true, begin + 130s));
}

TEST(Fallback, ADeadlineDoesNotWaitForATag) {
  Fallback next{.action = Action::AskOnDemand, .fleets = {}, .reason = {}, .mark = {}};
  EXPECT_FALSE(acts_unmarked(next)) << "who counts from the mark would ask at once";
  next.mark.outlook = Outlook();
  EXPECT_TRUE(acts_unmarked(next));
  next.action = Action::Rest;
  EXPECT_FALSE(acts_unmarked(next));
}

TEST(WatchMark, IsReadAsItWasWritten) {
  using enum WatchMark::Spot;
  const wire::WallTime at(1'764'000'000s);
  for (const WatchMark::Spot spot : {None, Starts, Runs, Stopped, Done})
    EXPECT_EQ(mark_of(tag_of({at, spot, at - 20min, {}, {}})),
              (WatchMark{at, spot, at - 20min, {}, {}}));
  EXPECT_EQ(tag_of({at, None, at - 20min, {}, {}}),
            "2025-11-24T16:00:00Z no spot since 2025-11-24T15:40:00Z");
  for (const char* wrong :
       {"", "yesterday", "2025-11-24T16:00:00Z", "2025-11-24T16:00:00Z no spot since ",
        "2025-11-24T16:00:00Z no spot since noon", "noon spot runs since 2025-11-24T16:00:00Z"})
    EXPECT_FALSE(mark_of(wrong)) << wrong;
}

TEST(WatchMark, IsASentenceForWhoAsksForTheTag) {
  const wire::WallTime at(1'764'000'000s);
  const WatchMark mark{at, WatchMark::Spot::Runs, at - 20min, machine, {}};
  EXPECT_EQ(words_of_watcher(tag_of(mark), at + 20min),
            "watched at 2025-11-24T16:00:00Z: spot runs since 2025-11-24T15:40:00Z");
  EXPECT_EQ(words_of_watcher(tag_of(mark), at + 21min),
            "nobody has watched since 2025-11-24T16:00:00Z: no on-demand instance comes");
  EXPECT_EQ(words_of_watcher("", at), "");
  const std::string outlook =
      "use=wait trouble=none left=5.20/0.340 latest=2025-11-24T21:10:00Z dollars=0.39/1 "
      "zone=us-west-2b had=2/10.4 lacked=1/3";
  const std::string words =
      words_of_watcher("2025-11-24T16:00:00Z no spot since 2025-11-24T16:00:00Z " + outlook, at);
  EXPECT_EQ(words,
            "watched at 2025-11-24T16:00:00Z: no spot since 2025-11-24T16:00:00Z; 34 % left, about "
            "5.2 h; on demand from 2025-11-24T21:10:00Z at the latest; spot in us-west-2b is 61 % "
            "cheaper and lasted 5.2 h on average");
}

TEST(WatchMark, IsWrittenWhenItSaysSomethingNewAndEachFewMinutes) {
  using enum WatchMark::Spot;
  const wire::WallTime at(1'764'000'000s);
  const WatchMark before{at, Runs, at, {}, {}};
  EXPECT_TRUE(is_news({}, before));
  EXPECT_FALSE(is_news(before, {at + 4min, Runs, at, {}, {}}));
  EXPECT_TRUE(is_news(before, {at + 5min, Runs, at, {}, {}}));
  EXPECT_TRUE(is_news(before, {at + 1min, None, at + 1min, {}, {}}));
  EXPECT_TRUE(is_news(before, {at + 1min, Runs, at + 1min, {}, {}}));
}

}  // namespace
}  // namespace spotter::launch
