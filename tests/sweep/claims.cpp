// Experiments that many agents share through a bucket: each is trained to its end once, whatever
// clocks, processes and the network do.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/sweep/claims_world.hpp"

namespace spotter::sweep {
namespace {

constexpr Moment minute = 60'000;

// SPOTTER_SEEDS=N looks longer.
std::uint64_t seeds(std::uint64_t usual) {
  const char* set = std::getenv("SPOTTER_SEEDS");
  return set == nullptr ? usual : std::strtoull(set, nullptr, 10);
}

WorldSettings interrupted() {
  WorldSettings settings;
  settings.experiments = 12;
  settings.hosts = 4;
  settings.reclaims = 30 * minute;
  settings.troubles.silent_ends = 0.3;
  return settings;
}

World::Figures live(const WorldSettings& settings, std::uint64_t usual) {
  World::Figures all;
  for (std::uint64_t seed = 0; seed < seeds(usual); ++seed) {
    World world(settings, seed);
    const std::string broken = world.live();
    EXPECT_EQ(broken, "") << "seed " << seed;
    EXPECT_EQ(world.figures().done + world.figures().given_up, settings.experiments);
    all.done += world.figures().done;
    all.overlaps += world.figures().overlaps;
    all.refused += world.figures().refused;
    all.attempts += world.figures().attempts;
    if (!broken.empty()) break;
  }
  return all;
}

TEST(Claims, OfOneQuietMachineCostARequestALease) {
  WorldSettings settings;
  settings.hosts = 1;
  settings.experiments = 5;
  World world(settings, 1);
  EXPECT_EQ(world.live(), "");
  const auto& figures = world.figures();
  EXPECT_EQ(figures.attempts, 5U);
  EXPECT_EQ(figures.trained, 5 * settings.work);
  const auto leases = static_cast<std::size_t>(settings.work / settings.lease.count());
  EXPECT_LE(figures.renewals, 5 * leases);
  // Beside these: a listing, the claim, the result and its hint.
  EXPECT_LE(figures.requests, 5 * (leases + 4));
}

TEST(Claims, AreSharedOut) {
  WorldSettings settings;
  settings.experiments = 40;
  settings.hosts = 10;
  const auto figures = live(settings, 20);
  EXPECT_EQ(figures.attempts, figures.done);  // nothing twice
}

TEST(Claims, OutliveMachines) { live(interrupted(), 200); }

TEST(Claims, OutliveANetworkThatLosesAndDelays) {
  WorldSettings settings = interrupted();
  settings.troubles.lost_requests = 0.1;
  settings.troubles.lost_answers = 0.1;
  settings.troubles.late_requests = 0.1;
  EXPECT_GT(live(settings, 200).refused, 0U);
}

TEST(Claims, OutliveOutagesOfTheBucket) {
  WorldSettings settings = interrupted();
  settings.troubles.outages_every = 20 * minute;
  live(settings, 200);
}

TEST(Claims, OfPausedProcessesAndMachinesAreNeverTwo) {
  WorldSettings settings = interrupted();
  settings.troubles.process_pauses_every = 20 * minute;
  settings.troubles.machine_pauses_every = 20 * minute;
  settings.troubles.lost_answers = 0.05;
  live(settings, 200);
}

// Whoever has a clock that stands still trains on, and publishes nothing.
TEST(Claims, OfStoppedClocksArePublishedOnce) {
  WorldSettings settings = interrupted();
  settings.troubles.clock_stops_every = 10 * minute;
  settings.troubles.lost_requests = 0.05;
  settings.troubles.late_requests = 0.05;
  const auto figures = live(settings, 400);
  EXPECT_GT(figures.overlaps, 0U);  // else nothing was tried here
}

TEST(Claims, OfTrainersThatFailEndToo) {
  WorldSettings settings = interrupted();
  settings.troubles.failing_trainers = 0.5;
  live(settings, 100);
  // Those that never get anywhere are given up, and cost no machine any more.
  settings.troubles.failing_trainers = 1;
  settings.checkpoints = settings.work;
  settings.reclaims = 0;
  World world(settings, 1);
  EXPECT_EQ(world.live(), "");
  EXPECT_EQ(world.figures().given_up, settings.experiments);
  EXPECT_EQ(world.figures().attempts, 3 * settings.experiments);
}

TEST(Claims, OutliveEverythingAtOnce) {
  WorldSettings settings = interrupted();
  settings.troubles = {0.05,        0.05,        0.05,        0.3,        0.1,
                       60 * minute, 60 * minute, 60 * minute, 60 * minute};
  live(settings, 400);
}

// The figure: every one finishes once, within 5 % of what the machines' hours allow.
TEST(Claims, OfTenThousandExperimentsKeepFiveHundredMachinesAtWork) {
  WorldSettings settings;
  settings.experiments = 10'000;
  settings.hosts = 500;
#ifdef __SANITIZE_ADDRESS__  // a tenth of it: there it is memory that is looked at
  settings.experiments /= 10;
  settings.hosts /= 10;
#endif
  settings.work = 60 * minute;
  settings.reclaims = 60 * minute;
  settings.troubles.silent_ends = 0.05;
  World world(settings, 7);
  EXPECT_EQ(world.live(), "");
  const auto& figures = world.figures();
  EXPECT_EQ(figures.done, settings.experiments);
  const double over = static_cast<double>(figures.makespan) / static_cast<double>(world.bound());
  std::printf("makespan %.1f h, %.4f of the bound; %zu attempts, %zu requests\n",
              static_cast<double>(figures.makespan) / 3.6e6, over, figures.attempts,
              figures.requests);
  EXPECT_LT(over, 1.05);
}

}  // namespace
}  // namespace spotter::sweep
