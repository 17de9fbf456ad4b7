#include "tests/simulate/scenario.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "tests/simulate/playing.hpp"

namespace spotter::simulate {
namespace {

constexpr std::array<std::string_view, 9> kFaultWords = {
    "kill-instance", "kill-agent",    "notice",      "short-notice", "lose-answer",
    "overlap",       "crash-trainer", "others-stop", "share-silent"};
constexpr std::array<std::string_view, 4> kSides = {"before-effect", "after-effect", "before-event",
                                                    "after-event"};
constexpr std::array<std::string_view, 3> kReplacements = {"same-zone", "other-zone", "any-zone"};

// The enumerator whose word this is.
template <class Enum, std::size_t N>
Enum value_of(const std::array<std::string_view, N>& words, const std::string& word) {
  for (std::size_t i = 0; i < N; ++i) {
    if (words[i] == word) return static_cast<Enum>(i);
  }
  throw std::invalid_argument("unknown word '" + word + "'");
}

template <class Enum, std::size_t N>
std::string word_of(const std::array<std::string_view, N>& words, Enum value) {
  return std::string(words[static_cast<std::size_t>(value)]);
}

ScriptedFault read_fault(std::istringstream& words) {
  ScriptedFault fault;
  std::string kind, side;
  words >> kind >> side;
  fault.kind = value_of<ScriptedFault::Kind>(kFaultWords, kind);
  if (side == "point") {
    words >> fault.point;
  } else {
    fault.side = value_of<Side>(kSides, side);
    words >> fault.name >> fault.times;
  }
  if (!words) throw std::invalid_argument("fault KIND point N, or fault KIND SIDE NAME TIMES");
  return fault;
}

void read_line(Scenario& scenario, const std::string& line) {
  std::istringstream words(line);
  std::string key, value;
  words >> key;
  Script& script = scenario.script;
  if (key == "fault") return script.faults.push_back(read_fault(words));
  if (key == "dice") {
    scenario.dice = true;
    return;
  }
  if (key == "fence") {
    script.fence = scenario.choice.fence = true;
    return;
  }
  if (key == "bucket") {
    script.bucket = scenario.choice.bucket = true;
    return;
  }
  words >> value;
  if (key == "seed") {
    scenario.seed = std::stoull(value);
  } else if (key == "replacement") {
    script.replacement = value_of<Script::Replacement>(kReplacements, value);
  } else if (key == "steps") {
    script.work.steps = std::stoll(value);
  } else if (key == "checkpoint-every") {
    script.work.checkpoint_every = std::stoll(value);
  } else if (key == "step-takes") {
    script.work.step_takes = std::chrono::seconds(std::stoll(value));
  } else if (key == "attempts") {
    script.attempts = static_cast<std::uint32_t>(std::stoul(value));
  } else if (key == "gpus") {
    script.gpus = std::stoi(value);
  } else if (key == "lacking") {
    script.lacking = std::stoull(value);
  } else if (key == "data") {
    script.data = value == "yes";
  } else if (key == "prepare") {
    script.prepare = value == "yes";
  } else if (key == "storage") {
    script.share = value == "share";
    if (!script.share) throw std::invalid_argument("a storage of stories is 'share'");
  } else if (key == "once") {
    script.once = value == "yes";
  } else if (key == "silence") {
    script.silence = std::chrono::seconds(std::stoll(value));
  } else if (key == "without" || key == "only") {
    scenario.choice.only = key == "only";
    scenario.choice.numbers = numbers_in(value);
  } else {
    throw std::invalid_argument("unknown key '" + key + "'");
  }
}

// `rest`: what follows the header.
Scenario read(const std::string& file, std::string& rest) {
  std::ifstream in(file);
  if (!in) throw std::invalid_argument("no such file");
  Scenario scenario;
  std::string line;
  while (std::getline(in, line) && line != "---") {
    if (line.starts_with("# ")) {
      scenario.title = line.substr(2);
    } else if (!line.empty()) {
      read_line(scenario, line);
    }
  }
  std::ostringstream text;
  text << in.rdbuf();
  rest = text.str();
  return scenario;
}

std::string outcome(const Verdict& verdict) {
  char text[200];
  std::snprintf(text, sizeof text, "%s after %.0f s, %llu instances",
                verdict.broken.empty() ? verdict.outcome.c_str() : verdict.broken.c_str(),
                std::chrono::duration<double>(verdict.took).count(),
                static_cast<unsigned long long>(verdict.instances));
  return text;
}

std::string tell(const Scenario& scenario) {
  Simulation simulation = scenario.play(true);
  const Playing playing(simulation, scenario.header());
  const Verdict verdict = simulation.run();
  const Work& work = scenario.script.work;
  const bool days = work.steps * work.step_takes > std::chrono::hours(24);
  return condensed(simulation.transcript(), days) + outcome(verdict) + "\n";
}

}  // namespace

std::set<std::uint64_t> numbers_in(const std::string& text) {
  std::set<std::uint64_t> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto dots = part.find("..");
    const std::uint64_t first = std::stoull(part);
    const std::uint64_t last =
        dots == std::string::npos ? first : std::stoull(part.substr(dots + 2));
    for (std::uint64_t number = first; number <= last; ++number) numbers.insert(number);
  }
  return numbers;
}

std::string text_of(const std::set<std::uint64_t>& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const std::uint64_t first = *it;
    std::uint64_t last = first;
    while (++it != numbers.end() && *it == last + 1) last = *it;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last != first) text += ".." + std::to_string(last);
  }
  return text;
}

Simulation Scenario::play(bool record) const {
  if (dice) return {seed, record, choice};
  return {seed, record, script};
}

std::string Scenario::header() const {
  std::ostringstream text;
  text << "# " << title << "\nseed " << seed << "\n";
  if (dice) {
    text << "dice\n";
    if (choice.fence) text << "fence\n";
    if (choice.bucket) text << "bucket\n";
    if (choice.only || !choice.numbers.empty()) {
      text << (choice.only ? "only " : "without ") << text_of(choice.numbers) << "\n";
    }
    return text.str() + "---\n";
  }
  text << "replacement " << word_of(kReplacements, script.replacement) << "\nsteps "
       << script.work.steps << "\ncheckpoint-every " << script.work.checkpoint_every
       << "\nstep-takes " << script.work.step_takes.count() / 1000 << "\nattempts "
       << script.attempts << "\n";
  if (script.gpus > 0) text << "gpus " << script.gpus << "\nlacking " << script.lacking << "\n";
  if (script.fence) text << "fence\n";
  if (script.bucket) text << "bucket\n";
  if (script.data) text << "data yes\n";
  if (script.prepare) text << "prepare yes\n";
  if (script.share) {
    text << "storage share\nonce " << (script.once ? "yes" : "no") << "\nsilence "
         << script.silence.count() / 1000 << "\n";
  }
  for (const ScriptedFault& fault : script.faults) {
    text << "fault " << word_of(kFaultWords, fault.kind) << " ";
    if (fault.point != 0) {
      text << "point " << fault.point << "\n";
    } else {
      text << word_of(kSides, fault.side) << " " << fault.name << " " << fault.times << "\n";
    }
  }
  return text.str() + "---\n";
}

// An event and what follows from it share a line. Left out: a wake-up that only looks again, and a
// look after which the same instance still waits for the same thing.
std::string condensed(const std::deque<std::string>& transcript, bool of_days) {
  constexpr std::size_t kClock = 11, kWho = 9;
  constexpr std::string_view kLook = "woke -> surveying; survey-storage";
  std::vector<std::string> lines;
  for (const std::string& line : transcript) {
    const auto arrow = line.find("    -> ");
    if (arrow == kClock + kWho && !lines.empty()) {
      lines.back() += line.substr(arrow + 3);
    } else {
      lines.push_back(line);
    }
  }
  std::map<std::string, std::string> before;  // what each instance said last
  std::string text;
  for (const std::string& line : lines) {
    if (line.ends_with(kLook)) continue;
    const bool trains = line.find("[training] ") != std::string::npos;
    const auto goes_on = line.rfind("-> training");
    if (of_days && trains && goes_on != std::string::npos) continue;
    const std::string who = line.substr(kClock, kWho);
    const std::string words = line.substr(kClock + kWho);
    const bool waits = words.find("storage-surveyed -> waiting") != std::string::npos;
    if (waits && before[who] == words) continue;
    before[who] = words;
    text += line + "\n";
  }
  return text;
}

int write_scenario(const std::string& file, const Scenario& scenario) {
  std::ofstream out(file);
  out << scenario.header() << tell(scenario);
  out.flush();
  if (out) return 0;
  std::fprintf(stderr, "simulate: cannot write %s\n", file.c_str());
  return 1;
}

int replay_scenario(const std::string& file) {
  std::string golden;
  Scenario scenario;
  try {
    scenario = read(file, golden);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simulate: %s: %s\n", file.c_str(), error.what());
    return 2;
  }
  const std::string played = tell(scenario);
  if (played.find("BROKEN") != std::string::npos) {
    std::printf("%s: %s\nbreaks a promise:\n%s", file.c_str(), scenario.title.c_str(),
                played.c_str());
    return 1;
  }
  if (std::getenv("SPOTTER_REWRITE")) return write_scenario(file, scenario);
  if (played == golden) return 0;
  std::istringstream was(golden), is(played);
  std::string old_line, new_line;
  int number = 0;
  while (old_line == new_line) {
    ++number;
    if (!std::getline(was, old_line)) old_line = "(the end)";
    if (!std::getline(is, new_line)) new_line = "(the end) ";
  }
  std::printf("%s: %s\nline %d of the transcript was\n  %s\nand is\n  %s\nthe whole of it now:\n%s",
              file.c_str(), scenario.title.c_str(), number, old_line.c_str(), new_line.c_str(),
              played.c_str());
  std::printf("Right? Then SPOTTER_REWRITE=1 simulate --scenario %s\n", file.c_str());
  return 1;
}

}  // namespace spotter::simulate
