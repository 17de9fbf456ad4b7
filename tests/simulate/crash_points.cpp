#include "tests/simulate/crash_points.hpp"

#include <atomic>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/simulate/playing.hpp"
#include "tests/simulate/scenario.hpp"

namespace spotter::simulate {
namespace {

using Kind = ScriptedFault::Kind;
constexpr std::size_t kMostPrinted = 5;  // of the runs that ended badly

struct Figures {
  std::uint64_t points = 0;  // of the story without a loss
  std::uint64_t instance_lost = 0, agent_lost = 0, pairs = 0, bad = 0;
};

struct Story {
  Scenario scenario;
  Figures figures;
};

Story make(const char* title, Script::Replacement replacement, std::vector<ScriptedFault> faults) {
  Story made;
  made.scenario.title = title;
  Script& script = made.scenario.script;
  script.replacement = replacement;
  script.work = {.steps = 4, .checkpoint_every = 2, .step_takes = std::chrono::seconds(1)};
  script.faults = std::move(faults);
  return made;
}

std::vector<Story> base_stories() {
  using enum Script::Replacement;
  const auto at_checkpoint = [](Kind kind) {
    return std::vector<ScriptedFault>{{kind, 0, Side::BeforeEvent, "checkpoint-made", 1}};
  };
  std::vector<Story> stories = {
      make("completion, same zone", SameZone, {}),
      make("completion, other zone", OtherZone, {}),
      make("notice, same zone", SameZone, at_checkpoint(Kind::Notice)),
      make("notice, other zone", OtherZone, at_checkpoint(Kind::Notice)),
      make("no notice, same zone", SameZone, at_checkpoint(Kind::KillInstance)),
      make("no notice, other zone", OtherZone, at_checkpoint(Kind::KillInstance)),
      make("two at once, any zone", AnyZone, {{Kind::Overlap, 0, Side::BeforeEvent, "started", 1}}),
  };
  // Long enough for the second to come up beside the first.
  stories.back().scenario.script.work.step_takes = std::chrono::seconds(8);
  for (const auto replacement : {SameZone, OtherZone}) {
    const bool same = replacement == SameZone;
    stories.push_back(make(same ? "data, same zone" : "data, other zone", replacement,
                           at_checkpoint(Kind::Notice)));
    stories.back().scenario.script.data = true;
  }
  for (const auto replacement : {SameZone, OtherZone}) {
    const bool same = replacement == SameZone;
    stories.push_back(make(same ? "prepared, same zone" : "prepared, other zone", replacement, {}));
    stories.back().scenario.script.prepare = true;
  }
  const auto on_share = [&](const char* title, std::vector<ScriptedFault> faults) -> Script& {
    stories.push_back(make(title, SameZone, std::move(faults)));
    stories.back().scenario.script.share = true;
    return stories.back().scenario.script;
  };
  on_share("share, completion", {});
  on_share("share, notice", at_checkpoint(Kind::Notice));
  on_share("share, silent server", at_checkpoint(Kind::ShareSilent));
  auto both = at_checkpoint(Kind::ShareSilent);
  both.push_back(at_checkpoint(Kind::Notice).front());
  on_share("share, silent and notice", std::move(both)).silence = std::chrono::seconds(150);
  on_share("share, run by another", at_checkpoint(Kind::Notice)).once = true;
  return stories;
}

class Explorer {
 public:
  explicit Explorer(const CrashOptions& options) : options_(options) {}

  void explore(Story& story) {
    figures_ = {};
    figures_.points = play(story.scenario, {});
    std::atomic<std::uint64_t> next = 1;
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < options_.jobs; ++i) {
      workers.emplace_back([&] {
        for (auto point = next++; point <= figures_.points; point = next++) {
          explore_point(story.scenario, point);
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    story.figures = figures_;
  }

 private:
  void explore_point(const Scenario& base, std::uint64_t first) {
    Figures mine;
    const std::uint64_t points = play(base, {lost(Kind::KillInstance, first)});
    const std::uint64_t agent_points = play(base, {lost(Kind::KillAgent, first)});
    ++mine.instance_lost;
    ++mine.agent_lost;
    if (options_.pairs) {
      mine.pairs += play_twice(base, lost(Kind::KillInstance, first), points);
    }
    if (options_.pairs && options_.agents) {
      mine.pairs += play_twice(base, lost(Kind::KillAgent, first), agent_points);
    }
    const std::lock_guard lock(mutex_);
    figures_.instance_lost += mine.instance_lost;
    figures_.agent_lost += mine.agent_lost;
    figures_.pairs += mine.pairs;
  }

  static ScriptedFault lost(Kind kind, std::uint64_t point) {
    ScriptedFault fault;
    fault.kind = kind;
    fault.point = point;
    return fault;
  }

  // A second loss at every point after the first. `points`: of the story with the first alone.
  std::uint64_t play_twice(const Scenario& base, const ScriptedFault& first, std::uint64_t points) {
    std::uint64_t runs = 0;
    for (std::uint64_t second = first.point + 1; second <= points; ++second) {
      play(base, {first, lost(Kind::KillInstance, second)});
      ++runs;
      if (!options_.agents) continue;
      play(base, {first, lost(Kind::KillAgent, second)});
      ++runs;
    }
    return runs;
  }

  // The points of this run.
  std::uint64_t play(Scenario scenario, const std::vector<ScriptedFault>& losses) {
    Script& script = scenario.script;
    script.faults.insert(script.faults.end(), losses.begin(), losses.end());
    Simulation simulation = scenario.play(false);
    const Playing playing(simulation, losses.empty() ? scenario.title : scenario.header());
    const Verdict verdict = simulation.run();
    if (verdict.broken.empty() && verdict.outcome == "finished") return verdict.points;
    print(scenario, verdict);
    return verdict.points;
  }

  void print(const Scenario& scenario, const Verdict& verdict) {
    const std::lock_guard lock(mutex_);
    if (++figures_.bad > kMostPrinted) return;
    Simulation again = scenario.play(true);
    (void)again.run();
    std::printf("%s%s%s\n\n", scenario.header().c_str(), condensed(again.transcript()).c_str(),
                (verdict.broken.empty() ? verdict.outcome : verdict.broken).c_str());
  }

  const CrashOptions& options_;
  std::mutex mutex_;
  Figures figures_;
};

}  // namespace

int run_crash_points(const CrashOptions& options) {
  const auto number = [](std::uint64_t it) { return static_cast<unsigned long long>(it); };
  nlohmann::json rows = nlohmann::json::array();
  Figures sum;
  const char* row = "%-24s %8llu %14llu %11llu %10llu %6llu\n";
  std::printf("%-24s %8s %14s %11s %10s %6s\n", "story", "points", "instance lost", "agent lost",
              "lost twice", "bad");
  Explorer explorer(options);
  for (Story& story : base_stories()) {
    Script& script = story.scenario.script;
    script.fence = options.fence && !script.share;
    script.bucket = options.bucket;
    if (options.bucket && (script.share || script.data || script.prepare)) continue;
    explorer.explore(story);
    const Figures& it = story.figures;
    std::printf(row, story.scenario.title.c_str(), number(it.points), number(it.instance_lost),
                number(it.agent_lost), number(it.pairs), number(it.bad));
    rows.push_back({{"story", story.scenario.title},
                    {"points", it.points},
                    {"instance_lost", it.instance_lost},
                    {"agent_lost", it.agent_lost},
                    {"pairs", it.pairs},
                    {"bad", it.bad}});
    sum.points += it.points;
    sum.instance_lost += it.instance_lost;
    sum.agent_lost += it.agent_lost;
    sum.pairs += it.pairs;
    sum.bad += it.bad;
  }
  std::printf(row, "all", number(sum.points), number(sum.instance_lost), number(sum.agent_lost),
              number(sum.pairs), number(sum.bad));
  if (!options.json.empty()) std::ofstream(options.json) << rows.dump(2) << "\n";
  return sum.bad == 0 ? 0 : 1;
}

}  // namespace spotter::simulate
