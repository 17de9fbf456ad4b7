#include "tests/simulate/market.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

namespace spotter::simulate {
namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw std::invalid_argument(file + ": " + why);
}

std::vector<Trace::Change> events_in(std::istream& input, const std::string& file) {
  std::vector<Trace::Change> changes;
  for (std::string line; std::getline(input, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    std::istringstream words(line);
    std::string when, what, node;
    std::getline(words, when, ',');
    std::getline(words, what, ',');
    std::getline(words, node);
    const bool number = !when.empty() && when.size() < 16 &&
                        when.find_first_not_of("0123456789") == std::string::npos;
    if (!number || (what != "add" && what != "remove") || node.empty()) {
      refuse(file, "not `milliseconds,add|remove,node`: " + line);
    }
    changes.push_back({static_cast<double>(std::stoull(when)) / 1000, what == "add", node});
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return changes;
}

// The trace does not say which node goes when a count falls: a random one, the same each time.
std::vector<Trace::Change> counts_in(const nlohmann::json& counts, double gap,
                                     const std::string& file) {
  std::vector<Trace::Change> changes;
  std::vector<std::string> there;
  world::Random random(1);
  double at = 0;
  for (const auto& it : counts) {
    if (!it.is_number_unsigned() || it.get<std::size_t>() > 100'000) refuse(file, "a bad count");
    const auto count = it.get<std::size_t>();
    while (there.size() > count) {
      const auto gone = there.begin() + static_cast<std::ptrdiff_t>(random.below(there.size()));
      changes.push_back({at, false, *gone});
      there.erase(gone);
    }
    while (there.size() < count) {
      there.push_back("node" + std::to_string(changes.size()));
      changes.push_back({at, true, there.back()});
    }
    at += gap;
  }
  return changes;
}

using Nodes = std::set<std::string>;

Nodes alive_at(const Trace& trace, double when) {
  Nodes nodes;
  for (const Trace::Change& change : trace.changes) {
    if (change.at > when) break;
    if (change.added) nodes.insert(change.node);
    if (!change.added) nodes.erase(change.node);
  }
  return nodes;
}

// When a node that is there at `when` of the trace goes; infinity: not before the trace ends.
double end_of(const Trace& trace, const std::string& node, double when) {
  for (const Trace::Change& change : trace.changes) {
    if (change.at > when && !change.added && change.node == node) return change.at;
  }
  return std::numeric_limits<double>::infinity();
}

double next_add(const Trace& trace, double when) {
  for (const Trace::Change& change : trace.changes) {
    if (change.at > when && change.added) return change.at;
  }
  return trace.length;
}

const std::string& any_of(const Nodes& nodes, world::Random& random) {
  return *std::next(nodes.begin(), static_cast<std::ptrdiff_t>(random.below(nodes.size())));
}

// From `when` (absolute) on: the first time with capacity, and when the node found there goes. A
// node that outlives the trace is from then on one of those with which it begins again.
std::pair<double, double> live(const Trace& trace, double when, world::Random& random) {
  double inside = std::fmod(when, trace.length);
  double round = when - inside;
  Nodes nodes = alive_at(trace, inside);
  for (int tries = 0; nodes.empty(); ++tries) {
    if (tries > 10'000) throw std::runtime_error(trace.name + " never has capacity");
    inside = next_add(trace, inside);
    if (inside >= trace.length) {
      round += trace.length;
      inside = 0;
    }
    nodes = alive_at(trace, inside);
  }
  const double begin = round + inside;
  double end = end_of(trace, any_of(nodes, random), inside);
  while (end > trace.length) {
    round += trace.length;
    nodes = alive_at(trace, 0);
    if (nodes.empty()) return {begin, round};
    end = end_of(trace, any_of(nodes, random), 0);
    if (round > begin + 400 * 24 * 3600.0) return {begin, round};  // a trace that removes nothing
  }
  return {begin, round + end};
}

}  // namespace

Trace load_trace(const std::string& file) {
  std::ifstream input(file);
  if (!input) refuse(file, "cannot be read");
  Trace trace;
  trace.name = std::filesystem::path(file).stem().string();
  if (file.ends_with(".csv")) {
    trace.changes = events_in(input, file);
    if (!trace.changes.empty()) trace.length = trace.changes.back().at + 60;
  } else {
    const auto json = nlohmann::json::parse(input, nullptr, false);
    const bool right = json.is_object() && json.contains("metadata") && json.contains("data") &&
                       json["data"].is_array() && json["metadata"].is_object() &&
                       json["metadata"].contains("gap_seconds") &&
                       json["metadata"]["gap_seconds"].is_number();
    if (!right) refuse(file, "not {\"metadata\":{\"gap_seconds\":N},\"data\":[count,...]}");
    const double gap = json["metadata"]["gap_seconds"];
    if (!(gap > 0)) refuse(file, "gap_seconds is not positive");
    trace.changes = counts_in(json["data"], gap, file);
    trace.length = gap * static_cast<double>(json["data"].size());
  }
  if (trace.changes.empty()) refuse(file, "holds no node");
  return trace;
}

Market draw_market(const Trace& trace, std::uint64_t seed, const MarketModel& model,
                   double length) {
  world::Random random(seed * 104'729 + 17);
  Market market;
  for (std::size_t zone = 0; zone < model.zones; ++zone) {
    market.prices.push_back(model.dollars * (1 + random.part() / 2));
  }
  const double offset = random.part() * trace.length;
  for (double when = 0; when < length;) {
    const auto [begin, end] =
        live(trace, offset + when + seconds_of(random.within(model.launch)), random);
    Segment segment;
    segment.begin = begin - offset;
    segment.end = end - offset;
    segment.boot = seconds_of(random.within(model.boot));
    segment.zone = random.below(model.zones);
    segment.announced = random.part() >= model.unannounced;
    // Each recommendation that is followed comes with so many that are not.
    const double in_vain = model.hinted * model.hints_in_vain / (1 - model.hints_in_vain);
    const double lasts = segment.end - segment.begin;
    if (random.part() < model.hinted) segment.hint = segment.end - 120 - random.part() * 780;
    for (double left = in_vain; left > 0; --left) {
      const double at = segment.begin + random.part() * lasts;
      const bool happens = random.part() < left;
      if (happens && (segment.hint < 0 || at < segment.hint)) segment.hint = at;
    }
    if (segment.hint < segment.begin) segment.hint = -1;
    market.segments.push_back(segment);
    when = segment.end;
  }
  return market;
}

}  // namespace spotter::simulate
