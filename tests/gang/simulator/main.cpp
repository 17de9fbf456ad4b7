// Lives of gangs, each drawn from a seed: scripts/simulate --gang.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/gang/simulator/market.hpp"
#include "tests/gang/simulator/world.hpp"

namespace spotter::gang {
namespace {

struct Asked {
  std::uint64_t first = 0, last = 0;
  std::uint64_t failures = 10;  // it stops after so many
  std::string file;
  bool of_all_kinds = false;
};

using Tally = std::map<std::string, std::uint64_t>;

// Kinds of trouble that must have come, or the lives show nothing of them.
constexpr const char* kinds[] = {"kills",
                                 "notices",
                                 "outages",
                                 "cuts",
                                 "partitions",
                                 "pauses",
                                 "crashes",
                                 "hangs",
                                 "commits",
                                 "rounds that failed",
                                 "rounds that were torn",
                                 "rounds apart",
                                 "machines given back",
                                 "machines left out",
                                 "workers ended",
                                 "machines that only seemed to hang",
                                 "torchruns started again",
                                 "machines that see a round late"};
constexpr std::uint64_t least_done = 90;  // of 100 lives: what nobody can mend is rare

bool has_all_kinds(const Tally& tally, std::uint64_t done, std::uint64_t runs) {
  bool all = true;
  for (const char* kind : kinds) {
    const auto found = tally.find(kind);
    if (found != tally.end() && found->second > 0) continue;
    std::printf("in no life: %s\n", kind);
    all = false;
  }
  if (100 * done >= least_done * runs) return all;
  std::printf("only %llu of %llu lives were done\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(runs));
  return false;
}

int play(const Asked& asked) {
  const auto begun = std::chrono::steady_clock::now();
  Tally outcomes, tally;
  auto failures = nlohmann::json::array();
  std::uint64_t runs = 0;
  for (std::uint64_t seed = asked.first; seed < asked.last; ++seed) {
    SimWorld world(seed, false);
    const std::string broken = world.live();
    ++runs;
    for (const auto& [kind, count] : world.tally()) tally[kind] += count;
    ++outcomes[broken.empty() ? world.summary() : "broken"];
    if (broken.empty()) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), broken.c_str());
    failures.push_back({{"seed", seed}, {"promise", broken}});
    if (failures.size() >= asked.failures) break;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  for (const auto& [outcome, count] : outcomes)
    std::printf("%s: %llu\n", outcome.c_str(), static_cast<unsigned long long>(count));
  for (const auto& [kind, count] : tally)
    std::printf("%s: %llu\n", kind.c_str(), static_cast<unsigned long long>(count));
  if (!asked.file.empty())
    std::ofstream(asked.file) << nlohmann::json{{"runs", runs},         {"instances", 0},
                                                {"steps", 0},           {"seconds", took.count()},
                                                {"outcomes", outcomes}, {"failures", failures}}
                              << "\n";
  if (asked.of_all_kinds && !has_all_kinds(tally, outcomes["done"], runs)) return 1;
  return failures.empty() ? 0 : 1;
}

int run(int argc, char** argv) {
  CLI::App app("Lives of gangs on virtual time");
  Asked asked;
  std::string seeds;
  std::uint64_t replay = 0, tail = 0;
  app.add_option("--seeds", seeds, "A..B");
  const auto* replays = app.add_option("--replay", replay, "tells the life of this seed");
  app.add_option("--failures", asked.failures, "stops after so many");
  app.add_flag("--all-kinds", asked.of_all_kinds,
               "fails where a kind of trouble never came, or too few lives were done");
  app.add_option("--tail", tail, "of no meaning here");
  app.add_option("--json", asked.file, "for scripts/simulate");
  std::vector<std::string> traces;
  std::size_t runs = 10;
  app.add_option("--trace", traces, "replays these spot markets with a gang of eight");
  app.add_option("--runs", runs, "with --trace: seeds");
  CLI11_PARSE(app, argc, argv);
  if (!traces.empty()) return replay_gangs(traces, runs);
  if (replays->count() > 0) {
    SimWorld world(replay, true);
    const std::string broken = world.live();
    std::printf("%s\n", broken.empty() ? world.summary().c_str() : broken.c_str());
    return broken.empty() ? 0 : 1;
  }
  unsigned long long first = 0, last = 0;
  if (std::sscanf(seeds.c_str(), "%llu..%llu", &first, &last) != 2 || first >= last) {
    std::fprintf(stderr, "simulate_gangs: --seeds A..B, with A < B\n");
    return 2;
  }
  asked.first = first;
  asked.last = last;
  return play(asked);
}

}  // namespace
}  // namespace spotter::gang

int main(int argc, char** argv) { return spotter::gang::run(argc, argv); }
