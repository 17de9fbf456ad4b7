// simulate --seeds A..B | --replay SEED [--json FILE]
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/simulate/simulation.hpp"

namespace {

using spotter::simulate::Simulation;
using spotter::simulate::Verdict;

struct Options {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // not included
  bool replay = false;
  std::size_t most_failures = 20;
  std::size_t tail = 60;
  std::string json;
};

// The core aborts the process when an invariant of its own breaks: this tells where.
const Simulation* playing = nullptr;
std::uint64_t playing_seed = 0;

void print_tail(const Simulation& simulation, std::size_t lines) {
  const auto& transcript = simulation.transcript();
  const std::size_t from = transcript.size() > lines ? transcript.size() - lines : 0;
  for (std::size_t i = from; i < transcript.size(); ++i) std::printf("%s\n", transcript[i].c_str());
}

void on_abort(int) {
  std::printf("seed %llu: the core aborted\n", static_cast<unsigned long long>(playing_seed));
  if (playing) print_tail(*playing, 60);
  std::fflush(stdout);
  _exit(1);
}

Verdict play(std::uint64_t seed, bool record, std::size_t tail) {
  Simulation simulation(seed, record);
  playing = &simulation;
  playing_seed = seed;
  const Verdict verdict = simulation.run();
  playing = nullptr;
  if (!record) return verdict;
  std::printf("faults: %s\n", simulation.describe_menu().c_str());
  print_tail(simulation, tail);
  return verdict;
}

void print(const Verdict& verdict) {
  std::printf("seed %llu: %s after %.0f s, %llu instances, %llu blows, %llu steps of the core\n",
              static_cast<unsigned long long>(verdict.seed),
              verdict.broken.empty() ? verdict.outcome.c_str() : verdict.broken.c_str(),
              std::chrono::duration<double>(verdict.took).count(),
              static_cast<unsigned long long>(verdict.instances),
              static_cast<unsigned long long>(verdict.blows),
              static_cast<unsigned long long>(verdict.steps));
}

int run_range(const Options& options) {
  const auto began = std::chrono::steady_clock::now();
  nlohmann::json failures = nlohmann::json::array();
  std::map<std::string, std::uint64_t> outcomes;
  std::uint64_t played = 0, instances = 0, steps = 0;
  for (std::uint64_t seed = options.first; seed < options.last; ++seed, ++played) {
    const Verdict verdict = play(seed, false, 0);
    ++outcomes[verdict.broken.empty() ? verdict.outcome : "BROKEN"];
    instances += verdict.instances;
    steps += verdict.steps;
    if (verdict.broken.empty()) continue;
    if (failures.empty() && options.tail > 0) (void)play(seed, true, options.tail);
    print(verdict);
    failures.push_back({{"seed", seed}, {"broken", verdict.broken}});
    if (failures.size() >= options.most_failures) break;
  }
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%llu lives, %llu instances, %llu steps of the core in %.1f s (%.0f lives a minute);",
              static_cast<unsigned long long>(played), static_cast<unsigned long long>(instances),
              static_cast<unsigned long long>(steps), took,
              60 * static_cast<double>(played) / took);
  for (const auto& [word, count] : outcomes) {
    std::printf(" %s %llu", word.c_str(), static_cast<unsigned long long>(count));
  }
  std::printf("\n");
  if (!options.json.empty()) {
    std::ofstream(options.json) << nlohmann::json{{"lives", played},      {"instances", instances},
                                                  {"steps", steps},       {"seconds", took},
                                                  {"outcomes", outcomes}, {"failures", failures}}
                                       .dump(2)
                                << "\n";
  }
  return failures.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Whole jobs on virtual time, with seeded faults");
  Options options;
  std::string seeds;
  std::uint64_t replay = 0;
  CLI::Option* range = app.add_option("--seeds", seeds, "A..B: the seeds from A up to before B");
  CLI::Option* one = app.add_option("--replay", replay, "tell the story of one seed");
  app.add_option("--json", options.json, "write the outcome to this file");
  app.add_option("--failures", options.most_failures, "stop after so many (20)");
  app.add_option("--tail", options.tail, "lines of a broken story (60)");
  range->excludes(one);
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGABRT, on_abort);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (*one) {
    const Verdict verdict = play(replay, true, static_cast<std::size_t>(-1));
    print(verdict);
    return verdict.broken.empty() ? 0 : 1;
  }
  const auto dots = seeds.find("..");
  if (dots == std::string::npos) return std::fprintf(stderr, "--seeds A..B or --replay SEED\n"), 2;
  options.first = std::stoull(seeds.substr(0, dots));
  options.last = std::stoull(seeds.substr(dots + 2));
  return run_range(options);
}
