// scripts/simulate --market: policies on traces of spot capacity.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "tests/capacity/report.hpp"
#include "tests/capacity/trace.hpp"

namespace spotter::capacity {
namespace {

struct Options {
  std::vector<std::string> places;
  double tick = 1.0 / 6, on_demand = 1, spot = 0.3;
  double work = 48, start = 0.1;
  std::size_t windows = 30;
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

int run(const Options& options) {
  const auto market = load_market(options.places, options.tick, options.on_demand, options.spot);
  if (!market) return std::fprintf(stderr, "%s\n", market.error().message.c_str()), 2;
  const auto tasks = tasks_of(*market, options);
  if (tasks.empty()) return std::fprintf(stderr, "the traces are shorter than the task\n"), 2;
  Report report;
  judge(*market, tasks, report);
  finish(report);
  print(std::to_string(market->pools.size()) + " pools", report);
  return report.rows.back().late == 0 ? 0 : 1;
}

}  // namespace
}  // namespace spotter::capacity

int main(int count, char** words) {
  spotter::capacity::Options options;
  CLI::App app("Policies on traces of spot capacity. Exit status 1: ours missed a deadline.");
  app.add_option("TRACE", options.places, "files, or folders of them: a pool each")->required();
  app.add_option("--tick", options.tick, "hours between two decisions")->check(CLI::PositiveNumber);
  app.add_option("--on-demand", options.on_demand, "dollars an hour")->check(CLI::PositiveNumber);
  app.add_option("--spot", options.spot, "dollars an hour, where a trace has no prices")
      ->check(CLI::PositiveNumber);
  app.add_option("--work", options.work, "hours of training")->check(CLI::PositiveNumber);
  app.add_option("--start", options.start, "hours of a start")->check(CLI::PositiveNumber);
  app.add_option("--windows", options.windows, "begins of the task, evenly over the traces")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, count, words);
  return spotter::capacity::run(options);
}
