// Early stopping in the claims' world: what it saves, and that nothing is stopped and finished, or
// judged twice, whatever clocks, processes and the network do.
//
//   test_sweep --gtest_filter='Stopping.*'          prints the figures
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "tests/sweep/claims_world.hpp"

namespace spotter::sweep {
namespace {

constexpr Moment an_epoch = 60'000;
constexpr std::size_t steps_in_epoch = 469;

using Curves = std::vector<std::vector<double>>;

// val_accuracy by set and epoch, of real runs: mnist_curves.csv says by which command.
Curves of_mnist() {
  Curves curves;
  std::ifstream file(SPOTTER_MNIST_CURVES);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream fields(line.substr(line.find(':') + 1));
    auto& curve = curves.emplace_back();
    for (double value = 0; fields >> value;) curve.push_back(value);
  }
  return curves;
}

WorldSettings on_mnist(std::size_t hosts) {
  WorldSettings settings;
  settings.curves = of_mnist();
  settings.experiments = settings.curves.size();
  settings.hosts = hosts;
  settings.work = static_cast<Moment>(settings.curves.front().size()) * an_epoch;
  settings.checkpoints = an_epoch;
  settings.stop.emplace();
  return settings;
}

std::size_t best_of(const Curves& curves) {
  const auto best = std::ranges::max_element(
      curves, {}, [](const std::vector<double>& curve) { return curve.back(); });
  return static_cast<std::size_t>(best - curves.begin());
}

struct Outcome {
  Moment trained = 0;
  std::size_t worlds = 0, same_best = 0, stopped = 0, unsettled = 0;
  double behind = 0;  // the largest distance of a found best set's last value from the true one
};

Outcome outcome_of(const WorldSettings& settings, std::uint64_t worlds) {
  Outcome all;
  const double truly = settings.curves[best_of(settings.curves)].back();
  for (std::uint64_t seed = 0; seed < worlds; ++seed) {
    World world(settings, seed);
    EXPECT_EQ(world.live(), "") << "seed " << seed;
    const auto& figures = world.figures();
    EXPECT_EQ(figures.done + figures.given_up, settings.experiments);
    all.trained += figures.trained;
    all.stopped += figures.stopped;
    all.unsettled += figures.unsettled;
    ++all.worlds;
    const auto best = world.best();
    if (!best) continue;
    all.same_best += *best == best_of(settings.curves) ? 1 : 0;
    all.behind = std::max(all.behind, truly - settings.curves[*best].back());
  }
  return all;
}

// 27 sets of 27 epochs: the figure. No machine ends, so no step is done twice.
TEST(Stopping, SavesSteps) {
  const auto settings = on_mnist(1);
  ASSERT_EQ(settings.experiments, 27U) << SPOTTER_MNIST_CURVES;
  const Moment in_full = settings.work * static_cast<Moment>(settings.experiments);
  const auto steps = [](Moment trained) {
    return static_cast<double>(trained) / an_epoch * steps_in_epoch;
  };
  for (const std::size_t hosts : {1, 3, 9}) {
    const auto outcome = outcome_of(on_mnist(hosts), 200);
    const double trained = steps(outcome.trained) / static_cast<double>(outcome.worlds);
    std::printf(
        "%zu machines: %.0f steps instead of %.0f, %.1f times fewer; of %zu runs %zu have the same "
        "best set, at worst val_accuracy is %.4f lower\n",
        hosts, trained, steps(in_full), steps(in_full) / trained, outcome.worlds, outcome.same_best,
        outcome.behind);
    EXPECT_GT(steps(in_full) / trained, 3);
    EXPECT_LT(outcome.behind, 0.005);
  }
}

TEST(Stopping, IsNotWithoutARule) {
  auto settings = on_mnist(3);
  settings.stop.reset();
  const auto outcome = outcome_of(settings, 3);
  EXPECT_EQ(outcome.stopped, 0U);
  EXPECT_EQ(outcome.same_best, outcome.worlds);
  EXPECT_EQ(outcome.trained, 3 * settings.work * static_cast<Moment>(settings.experiments));
}

WorldSettings where_machines_end() {
  auto settings = on_mnist(4);
  settings.reclaims = 30 * an_epoch;
  settings.troubles.silent_ends = 0.3;
  return settings;
}

TEST(Stopping, OutlivesMachines) {
  const auto outcome = outcome_of(where_machines_end(), 100);
  EXPECT_GT(outcome.stopped, outcome.worlds * 15);
}

TEST(Stopping, OutlivesANetworkThatLosesAndDelays) {
  auto settings = where_machines_end();
  settings.troubles.lost_requests = 0.1;
  settings.troubles.lost_answers = 0.1;
  settings.troubles.late_requests = 0.1;
  EXPECT_GT(outcome_of(settings, 100).unsettled, 0U);
}

// Whoever cannot read the bucket trains on: nothing is stopped on a guess.
TEST(Stopping, OutlivesOutagesOfTheBucket) {
  auto settings = where_machines_end();
  settings.troubles.outages_every = 10 * an_epoch;
  const auto outcome = outcome_of(settings, 100);
  EXPECT_GT(outcome.unsettled, 0U);
  EXPECT_GT(outcome.stopped, 0U);
}

TEST(Stopping, OutlivesPausesStoppedClocksAndFailures) {
  auto settings = where_machines_end();
  settings.troubles = {0.05,          0.05,          0.05,          0.3,          0.1,
                       60 * an_epoch, 60 * an_epoch, 60 * an_epoch, 60 * an_epoch};
  EXPECT_GT(outcome_of(settings, 200).stopped, 0U);
}

}  // namespace
}  // namespace spotter::sweep
