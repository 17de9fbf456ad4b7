#include "agent/wire/history.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/base/version.hpp"

namespace spotter::wire {
namespace {

constexpr std::array<std::string_view, 13> kinds = {
    "began",      "price", "phase",  "notice",  "notice-withdrawn", "rebalance", "resumed",
    "checkpoint", "ended", "volume", "account", "problem",          "left"};

constexpr std::uint64_t known_history = 1;
constexpr double latest = 1e11;  // a larger one could overflow in a reader's sums

std::optional<HistoryEntry> parse_entry(std::string_view line, std::string& newer) {
  auto object = parse_json_object(line);
  if (!object) return std::nullopt;
  if (auto later = wire::newer(*object, "version", known_history, "the history")) {
    newer = std::move(later->message);
    return std::nullopt;
  }
  HistoryEntry entry;
  entry.what = text_field(*object, "what");
  entry.instance = text_field(*object, "instance");
  const auto time = object->find("time");
  if (time == object->end() || !time->is_number()) return std::nullopt;
  entry.time = time->get<double>();
  const bool sound = entry.time >= 0 && entry.time < latest;
  if (!sound || std::ranges::find(kinds, entry.what) == kinds.end()) return std::nullopt;
  for (const char* said : {"time", "what", "instance"}) object->erase(said);
  entry.fields = std::move(*object);
  return entry;
}

}  // namespace

std::string HistoryEntry::text(const char* name) const {
  return fields.is_object() ? text_field(fields, name) : std::string();
}

std::optional<double> HistoryEntry::number(const char* name) const {
  return fields.is_object() ? number_field(fields, name) : std::nullopt;
}

std::string to_line(const HistoryEntry& entry) {
  nlohmann::ordered_json line = {{"time", std::round(entry.time * 1000) / 1000},
                                 {"what", entry.what},
                                 {"instance", entry.instance}};
  for (const auto& [name, value] : entry.fields.items())
    if (!value.is_null()) line[name] = value;
  return json_text(line) + "\n";
}

ReadHistory parse_history(std::string_view lines) {
  ReadHistory read;
  while (!lines.empty()) {
    const std::string_view line = take_until(lines, '\n');
    if (line.empty()) continue;
    if (auto entry = parse_entry(line, read.newer))
      read.entries.push_back(std::move(*entry));
    else
      ++read.foreign;
  }
  return read;
}

}  // namespace spotter::wire
