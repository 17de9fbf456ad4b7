#include "agent/launch/fallback.hpp"

#include <gtest/gtest.h>

namespace spotter::launch {
namespace {

using namespace std::chrono_literals;
using Action = Fallback::Action;
using State = WatchedMachine::State;

const FleetId first_fleet("fleet-on-demand"), second_fleet("fleet-later");
const InstanceId first_machine("i-00000000000000001"), second_machine("i-00000000000000002");

Watched seen_with(std::chrono::seconds first, std::chrono::seconds second) {
  Watched seen{.now = wire::WallTime(1'764'000'000s)};
  seen.own = WatchedFleet{FleetId("fleet-own"), 1};
  seen.beside = {{second_fleet, 1}, {first_fleet, 1}};  // of one place after the other
  seen.beside[0].created = seen.now - 1h;
  seen.beside[1].created = seen.now - 2h;
  if (first > 0s)
    seen.machines.push_back({first_machine, false, State::Running, seen.now - first, first_fleet});
  if (second > 0s)
    seen.machines.push_back(
        {second_machine, false, State::Running, seen.now - second, second_fleet});
  return seen;
}

// Its region did not answer for a while, so a second one was asked for elsewhere.
TEST(Beside, OfTwoTheOneStaysThatRunsSinceLonger) {
  const auto ended = [](std::chrono::seconds first, std::chrono::seconds second) {
    const config::OnDemand wanted{config::OnDemand::When::After, 20min};
    const Fallback next = decide_fallback(wanted, 15min, seen_with(first, second));
    EXPECT_EQ(next.action, Action::End) << next.reason;
    return next.fleets;
  };
  EXPECT_EQ(ended(90min, 20min), std::vector{second_fleet});
  EXPECT_EQ(ended(5min, 20min), std::vector{first_fleet});
  EXPECT_EQ(ended(0s, 20min), std::vector{first_fleet}) << "none came of it";
  EXPECT_EQ(ended(0s, 0s), std::vector{second_fleet});
  EXPECT_FALSE(which_stays(seen_with(0s, 2min)).is_sure) << "another watcher may not see it yet";
}

TEST(Beside, WhereTheOnDemandInstanceMayRunUnseenNoSecondIsAskedFor) {
  const config::OnDemand when_needed{config::OnDemand::When::WhenNeeded, {}};
  const auto next_with = [&](auto change) {
    Watched seen = seen_with(0s, 0s);
    seen.beside.clear();
    seen.prospect = Prospect{.due = seen.now + 2h,
                             .work = {1.5, 0.5},
                             .on_demand = 1,
                             .spot = 0.3,
                             .zone = {},
                             .dollars_left = {}};
    const Fallback before = decide_fallback(when_needed, 15min, seen);
    EXPECT_EQ(before.action, Action::AskOnDemand);
    seen.mark = before.mark;
    seen.unread = seen.missing = "us-east-2";
    seen.elsewhere = seen.publication_known = true;
    seen.publication = Published{{}, {}, false, second_machine, seen.now};
    seen.now += 1min;
    change(seen);
    return decide_fallback(when_needed, 15min, seen);
  };
  const Fallback next = next_with([](Watched&) {});
  EXPECT_EQ(next.action, Action::Wait);
  EXPECT_EQ(next.reason,
            "the job is to run on demand, and may do so in us-east-2, which does not answer");
  const auto asks = [&](auto change) { return next_with(change).action == Action::AskOnDemand; };
  EXPECT_TRUE(asks([](Watched& it) { it.unread.clear(); }));
  EXPECT_TRUE(asks([](Watched& it) { it.publication.reset(); }));
  EXPECT_TRUE(asks([](Watched& it) { *it.publication->at -= 24min; })) << "nothing since long";
  EXPECT_TRUE(asks([](Watched& it) {
    it.machines.push_back({second_machine, true, State::Ended, it.now});
  })) << "of the one that was lost";
  EXPECT_FALSE(asks([](Watched& it) { it.publication_known = false; }));
}

}  // namespace
}  // namespace spotter::launch
