// explore: every reachable state of one job, the real core and an abstract world together, searched
// breadth first; in each the promises of judge.cpp hold, and from each the job ends when nothing
// goes wrong any more. kAbstracted says what is left out.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/explore/search.hpp"

namespace {

using namespace spotter::explore;

// Left out, so that the states are few.
constexpr const char* kAbstracted =
    "abstracted:\n"
    "- Work and calls take no time; time passes in steps of the (short) policy, while everybody\n"
    "  waits. What EC2 does of itself (attach, detach, create) is over within ten seconds or "
    "hangs\n"
    "  (a fault); a snapshot takes as long as it likes. A look at EC2 is of one instant; one "
    "change\n"
    "  of each volume or snapshot at a time may be shown late, up to the consistency bound.\n"
    "- A killed agent's calls happen at once or never, a killed instance's until their time-out.\n"
    "- Versions of checkpoints, generations and ids count by their order; counters up to their\n"
    "  limits; starts up to two; money, hours, pace and code not at all. No disk is damaged or\n"
    "  foreign.\n"
    "- In a bucket, a commit is whole or not at all, and nothing is removed; a lease is over when\n"
    "  its holder stands still (a fault), and it is not written down that it is renewed.\n"
    "- While there are more than --volumes or --snapshots, nothing goes wrong.\n";

struct Options {
  int faults = 1;
  int zones = 2;
  int instances = 1;
  int volumes = 3;
  int snapshots = 2;
  bool free_kills = false;
  bool fence = false;
  bool bucket = false;
  std::uint64_t most = 60'000'000;
  std::string json;
};

void print(const Outcome& outcome, const Options& options, double seconds) {
  for (const std::string& line : outcome.story) std::printf("  %s\n", line.c_str());
  if (!outcome.broken.empty()) std::printf("BROKEN: %s\n", outcome.broken.c_str());
  std::printf(
      "%llu states, %llu transitions, depth %u, %llu ends, at most %u calm moves to the end; "
      "%d faults, %d zones, %d at once; %.1f s%s\n",
      static_cast<unsigned long long>(outcome.states),
      static_cast<unsigned long long>(outcome.transitions), outcome.depth,
      static_cast<unsigned long long>(outcome.ends), outcome.calm_moves, options.faults,
      options.zones, options.instances, seconds, outcome.complete ? "" : " (CUT SHORT)");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Searches every reachable state of one job, agents and world together");
  Options options;
  app.add_option("--faults", options.faults, "faults in one story, at most (1)");
  app.add_option("--zones", options.zones, "1 or 2 (2)");
  app.add_option("--instances", options.instances, "at once: 1 or 2 (1)");
  app.add_flag("--free-kills", options.free_kills, "interruptions without notice are no faults");
  CLI::Option* fence = app.add_flag("--fence", options.fence, "the job has a fence");
  app.add_flag("--bucket", options.bucket, "the job's home is in a bucket")->excludes(fence);
  app.add_option("--volumes", options.volumes, "with more of them nothing goes wrong (3)");
  app.add_option("--snapshots", options.snapshots, "with more of them nothing goes wrong (2)");
  app.add_option("--most", options.most, "states, then give up (60,000,000)");
  app.add_option("--json", options.json, "write the outcome to this file");
  CLI11_PARSE(app, argc, argv);
  std::fputs(kAbstracted, stdout);
  if (options.fence) use_fence();
  if (options.bucket) use_bucket();
  Limits limits;
  limits.zones = static_cast<std::uint8_t>(options.zones);
  limits.instances = static_cast<std::uint8_t>(options.instances);
  limits.free_kills = options.free_kills;
  limits.volumes = static_cast<std::uint8_t>(options.volumes);
  limits.snapshots = static_cast<std::uint8_t>(options.snapshots);
  const auto began = std::chrono::steady_clock::now();
  Search search(limits, static_cast<std::uint8_t>(options.faults), options.most);
  const Outcome outcome = search.run();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  print(outcome, options, seconds);
  if (!options.json.empty()) {
    std::ofstream(options.json)
        << nlohmann::json{{"states", outcome.states}, {"transitions", outcome.transitions},
                          {"depth", outcome.depth},   {"ends", outcome.ends},
                          {"faults", options.faults}, {"complete", outcome.complete},
                          {"broken", outcome.broken}, {"story", outcome.story},
                          {"seconds", seconds}}
               .dump(2)
        << "\n";
  }
  return outcome.broken.empty() && outcome.complete ? 0 : 1;
}
