#include "tests/capacity/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/capacity/optimum.hpp"

namespace spotter::capacity {
namespace {

Outcome best_of_one_pool(const Market& market, const Task& task) {
  Outcome best;
  for (std::size_t i = 0; i < market.pools.size(); ++i) {
    const Outcome outcome = play(market, task, *one_pool(market, task, i));
    if (i == 0 || outcome.dollars < best.dollars) best = outcome;
  }
  return best;
}

}  // namespace

Watching watching_of(const Market& market, std::shared_ptr<Tables> tables) {
  std::size_t places = 1;
  for (const MarketPool& it : market.pools) places = std::max(places, it.place + 1);
  Watching watching{.regions = market.regions, .tables = std::move(tables)};
  const std::string names[] = {"us-west-2", "us-east-2", "eu-west-1", "eu-central-1"};
  watching.regions.resize(places);
  for (std::size_t i = 0; i < places; ++i)
    if (watching.regions[i].empty()) watching.regions[i] = names[i % std::size(names)];
  return watching;
}

void judge(const Market& market, const std::vector<Task>& tasks, Report& report) {
  auto watching = watching_of(market, std::make_shared<Tables>());
  for (const Task& task : tasks) {
    const double least = optimum(market, task);
    if (!std::isfinite(least)) continue;
    ++report.tasks;
    const auto ours = [&](double noise, unsigned seed) {
      watching.noise = noise;
      watching.seed = seed;
      return play(market, task, *watched(market, task, watching));
    };
    std::vector<std::pair<std::string, Outcome>> outcomes{
        {"on demand", play(market, task, *only_on_demand())},
        {"best pool", best_of_one_pool(market, task)},
        {"greedy", play(market, task, *greedy(market, task))},
        {"uniform progress", play(market, task, *uniform_progress(market, task))},
        {"spotter", ours(0, 0)},
        {"spotter, misled", ours(0.05, 1)},
        {"spotter, misled 2", ours(0.05, 2)},
    };
    report.rows.resize(outcomes.size());
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      Row& row = report.rows[i];
      const auto& [name, outcome] = outcomes[i];
      row.policy = name;
      row.mean += outcome.dollars / least;
      row.worst = std::max(row.worst, outcome.dollars / least);
      row.late += outcome.in_time ? 0 : 1;
    }
  }
}

void finish(Report& report) {
  for (Row& row : report.rows) row.mean /= static_cast<double>(report.tasks);
}

void print(const std::string& title, const Report& report) {
  std::printf("%s: %zu tasks; dollars by the optimum's\n", title.c_str(), report.tasks);
  for (const Row& row : report.rows)
    std::printf("  %-18s mean %.3f  worst %.3f  late %zu\n", row.policy.c_str(), row.mean,
                row.worst, row.late);
}

}  // namespace spotter::capacity
