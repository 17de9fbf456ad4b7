// scripts/simulate --market: policies on traces of spot capacity.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/capacity/made_up.hpp"
#include "tests/capacity/report.hpp"
#include "tests/capacity/trace.hpp"

namespace spotter::capacity {
namespace {

struct Options {
  std::vector<std::string> places;
  Reading reading;
  double on_demand = 1;
  double work = 48, start = 0.1;
  std::size_t windows = 30;
  bool made_up = false;
};

// Windows that begin evenly over the market, with little and with much time beside the work.
std::vector<Task> tasks_of(const Market& market, const Options& options) {
  std::vector<Task> tasks;
  for (const double times : {1.15, 1.3, 1.6, 2.2}) {
    const auto ticks = static_cast<std::size_t>(std::ceil(options.work * times / market.tick));
    if (ticks > market.ticks()) continue;
    const std::size_t room = market.ticks() - ticks;
    const std::size_t windows = std::min(options.windows, room + 1);
    for (std::size_t i = 0; i < windows; ++i)
      tasks.push_back(
          {room * i / std::max<std::size_t>(windows - 1, 1), ticks, options.work, options.start});
  }
  return tasks;
}

// Prints what the files were understood to say.
void describe(const Market& market) {
  for (const MarketPool& it : market.pools) {
    double there = 0, dollars = 0;
    for (std::size_t i = 0; i < it.available.size(); ++i) {
      there += it.available[i] ? 1 : 0;
      dollars += it.dollars[i];
    }
    const auto ticks = static_cast<double>(it.available.size());
    std::printf("%s: %.1f h, capacity in %.0f %% of them, $%.3f an hour on average\n",
                it.name.c_str(), ticks * market.tick, 100 * there / ticks, dollars / ticks);
  }
}

// False: ours missed a deadline.
bool judged(const std::string& name,
            const std::vector<std::pair<Market, std::vector<Task>>>& markets) {
  Report report;
  for (const auto& [market, tasks] : markets) judge(market, tasks, report);
  finish(report);
  print(name, report);
  return std::ranges::none_of(
      report.rows, [](const Row& it) { return it.policy.starts_with("spotter") && it.late > 0; });
}

int run_made_up(const Options& options) {
  constexpr unsigned seeds = 3;
  bool kept = true;
  for (const Kind& kind : kinds()) {
    std::vector<std::pair<Market, std::vector<Task>>> markets;
    for (unsigned seed = 0; seed < seeds; ++seed) {
      Market market = make_up(kind, 104'729 * seed + 17, 14 * 24 * 6);
      auto tasks = tasks_of(market, options);
      markets.emplace_back(std::move(market), std::move(tasks));
    }
    kept = judged(kind.name, markets) && kept;
  }
  return kept ? 0 : 1;
}

int run(const Options& options) {
  if (options.made_up) return run_made_up(options);
  const auto market = load_market(options.places, options.reading, options.on_demand);
  if (!market) return std::fprintf(stderr, "%s\n", market.error().message.c_str()), 2;
  const auto tasks = tasks_of(*market, options);
  if (tasks.empty())
    return std::fprintf(stderr, "the traces, of %.1f h, are shorter than the task: --work\n",
                        static_cast<double>(market->ticks()) * market->tick),
           2;
  describe(*market);
  return judged(std::to_string(market->pools.size()) + " pools", {{*market, tasks}}) ? 0 : 1;
}

}  // namespace
}  // namespace spotter::capacity

int main(int count, char** words) {
  spotter::capacity::Options options;
  CLI::App app("Policies on traces of spot capacity. Exit status 1: ours missed a deadline.");
  auto* places = app.add_option("TRACE", options.places, "files, or folders of them: a pool each");
  auto* made_up =
      app.add_flag("--made-up", options.made_up, "markets of tests/capacity/made_up.cpp instead");
  places->excludes(made_up);
  app.add_option("--at-least", options.reading.at_least,
                 "of traces of counts: so many instances are capacity")
      ->check(CLI::PositiveNumber);
  app.add_flag("--one-is-lost", options.reading.one_is_lost, "a trace's 1 says: no capacity");
  app.add_option("--tick", options.reading.tick, "hours between two decisions")
      ->check(CLI::PositiveNumber);
  app.add_option("--on-demand", options.on_demand, "dollars an hour")->check(CLI::PositiveNumber);
  app.add_option("--spot", options.reading.usual, "dollars an hour, where a trace has no prices")
      ->check(CLI::PositiveNumber);
  app.add_option(
         "--move", options.reading.move,
         "dollars of a move from one region to another: files TYPE_ZONE.csv are of one each")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--work", options.work, "hours of training")->check(CLI::PositiveNumber);
  app.add_option("--start", options.start, "hours of a start")->check(CLI::PositiveNumber);
  app.add_option("--windows", options.windows, "begins of the task, evenly over the traces")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, count, words);
  if (options.places.empty() && !options.made_up)
    return std::fprintf(stderr, "give traces, or --made-up\n"), 2;
  return spotter::capacity::run(options);
}
