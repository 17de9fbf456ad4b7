// simulate --seeds A..B | --replay SEED | --scenario FILE | --crash-points; see --help
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/simulate/crash_points.hpp"
#include "tests/simulate/market.hpp"
#include "tests/simulate/playing.hpp"
#include "tests/simulate/scenario.hpp"
#include "tests/simulate/shrink.hpp"

namespace {

using namespace spotter::simulate;

struct Options {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // not included
  std::size_t most_failures = 20;
  std::size_t tail = 60;
  std::string json;
  Choice choice;
};

unsigned long long number(std::uint64_t it) { return it; }

Verdict play(std::uint64_t seed, bool record, std::size_t tail, const Choice& choice = {}) {
  Simulation simulation(seed, record, choice);
  const Playing playing(simulation, "seed " + std::to_string(seed));
  const Verdict verdict = simulation.run();
  if (!record) return verdict;
  std::printf("faults: %s\n", simulation.describe_menu().c_str());
  print_tail(simulation.transcript(), tail);
  return verdict;
}

void print(const Verdict& verdict) {
  std::printf("seed %llu: %s after %.0f s, %llu instances, %llu faults, %llu steps of the core\n",
              number(verdict.seed),
              verdict.broken.empty() ? verdict.outcome.c_str() : verdict.broken.c_str(),
              std::chrono::duration<double>(verdict.took).count(), number(verdict.instances),
              number(verdict.faults), number(verdict.steps));
}

// The transcript of a broken run, its end only, and of the shortest that breaks the same promise.
void print_broken(std::uint64_t seed, std::size_t tail, const Choice& choice) {
  print(play(seed, true, tail, choice));
  const Shrunk shrunk = shrink(seed, choice);
  Simulation again(seed, true, shrunk.choice);
  const Verdict verdict = again.run();
  std::printf("\nthe same with %zu of its %zu faults (%llu runs tried):\n%s",
              shrunk.choice.numbers.size(), shrunk.faults, number(shrunk.runs),
              condensed(again.transcript()).c_str());
  print(verdict);
  const std::string only = shrunk.choice.numbers.empty() ? "0" : text_of(shrunk.choice.numbers);
  std::printf("again: simulate %s--replay %llu --only %s\n\n",
              choice.fence    ? "--fence "
              : choice.bucket ? "--bucket "
                              : "",
              number(seed), only.c_str());
}

int run_range(const Options& options) {
  const auto began = std::chrono::steady_clock::now();
  nlohmann::json failures = nlohmann::json::array();
  std::map<std::string, std::uint64_t> outcomes;
  std::uint64_t played = 0, instances = 0, steps = 0;
  for (std::uint64_t seed = options.first; seed < options.last; ++seed, ++played) {
    const Verdict verdict = play(seed, false, 0, options.choice);
    ++outcomes[verdict.broken.empty() ? verdict.outcome : "BROKEN"];
    instances += verdict.instances;
    steps += verdict.steps;
    if (verdict.broken.empty()) continue;
    if (failures.empty() && options.tail > 0) print_broken(seed, options.tail, options.choice);
    print(verdict);
    failures.push_back({{"seed", seed}, {"broken", verdict.broken}});
    if (failures.size() >= options.most_failures) break;
  }
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%llu runs, %llu instances, %llu steps of the core in %.1f s (%.0f runs a minute);",
              number(played), number(instances), number(steps), took,
              60 * static_cast<double>(played) / took);
  for (const auto& [word, count] : outcomes) std::printf(" %s %llu", word.c_str(), number(count));
  std::printf("\n");
  if (!options.json.empty()) {
    std::ofstream(options.json) << nlohmann::json{{"runs", played},       {"instances", instances},
                                                  {"steps", steps},       {"seconds", took},
                                                  {"outcomes", outcomes}, {"failures", failures}}
                                       .dump(2)
                                << "\n";
  }
  return failures.empty() ? 0 : 1;
}

int replay(std::uint64_t seed, const Choice& choice, const std::string& file) {
  if (!file.empty()) {
    Scenario scenario;
    scenario.title = "the run of seed " + std::to_string(seed);
    scenario.seed = seed;
    scenario.dice = true;
    scenario.choice = choice;
    return write_scenario(file, scenario);
  }
  const bool whole = !choice.only && choice.numbers.empty();
  const Verdict verdict = play(seed, true, static_cast<std::size_t>(-1), choice);
  print(verdict);
  if (verdict.broken.empty()) return 0;
  if (whole) print_broken(seed, 0, choice);
  return 1;
}

int run(int argc, char** argv) {
  CLI::App app("Whole jobs on virtual time, with seeded faults");
  Options options;
  CrashOptions crash;
  std::string seeds, without, only, file;
  std::uint64_t seed = 0;
  bool crash_points = false;
  CLI::Option* range = app.add_option("--seeds", seeds, "A..B: the seeds from A up to before B");
  CLI::Option* one = app.add_option("--replay", seed, "tell the story of one seed");
  app.add_option("--without", without, "leave out these of its faults: 3,17,10020..10040")
      ->needs(one);
  CLI::Option* few = app.add_option("--only", only, "leave out all other faults")->needs(one);
  CLI::Option* scenario = app.add_option(
      "--scenario", file, "replay a file of tests/scenarios; with --replay: write it");
  CLI::Option* fence = app.add_flag("--fence", options.choice.fence,
                                    "with --seeds, --replay, --crash-points: the job has a fence");
  app.add_flag("--bucket", options.choice.bucket,
               "with --seeds, --replay, --crash-points: the job's home is in a bucket")
      ->excludes(fence);
  app.add_flag("--crash-points", crash_points, "lose the instance at every point of base stories");
  app.add_flag("--pairs", crash.pairs, "with --crash-points: also at every two points");
  app.add_flag("--agents", crash.agents, "with --pairs: also the agent alone, first or second");
  app.add_option("--jobs", crash.jobs, "with --crash-points: threads (1)");
  app.add_option("--json", options.json, "write the outcome to this file");
  app.add_option("--failures", options.most_failures, "stop after so many (20)");
  app.add_option("--tail", options.tail, "lines of a broken story; 0: none (60)");
  MarketOptions market;
  CLI::Option* trace = app.add_option("--trace", market.traces, "replay these spot markets");
  app.add_option("--runs", market.seeds, "with --trace: seeds (100)")->needs(trace);
  app.add_option("--price", market.dollars, "with --trace: dollars of an instance-hour")
      ->needs(trace);
  app.add_option("--svg", market.svg, "with --trace: draw the table into this file")->needs(trace);
  range->excludes(one);
  CLI11_PARSE(app, argc, argv);
  if (crash_points) {
    crash.json = options.json;
    crash.fence = options.choice.fence;
    crash.bucket = options.choice.bucket;
    return run_crash_points(crash);
  }
  if (*trace) {
    market.json = options.json;
    return replay_markets(market);
  }
  if (*one) {
    options.choice.only = few->count() > 0;
    options.choice.numbers = numbers_in(*few ? only : without);
    return replay(seed, options.choice, file);
  }
  if (*scenario) return replay_scenario(file);
  const auto dots = seeds.find("..");
  if (dots == std::string::npos) throw std::invalid_argument("nothing to do; see --help");
  options.first = std::stoull(seeds.substr(0, dots));
  options.last = std::stoull(seeds.substr(dots + 2));
  return run_range(options);
}

}  // namespace

int main(int argc, char** argv) {
  report_aborts();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simulate: %s\n", error.what());
    return 2;
  }
}
