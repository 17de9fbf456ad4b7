#include "agent/tools/checkpoints/table.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "agent/base/clock_text.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

using guard::Away;
using guard::bytes_text;
using guard::Contents;
using guard::Generation;
using guard::Inventory;
using Line = std::vector<std::string>;

std::string time_text(std::int64_t time) {
  return wire::to_rfc3339(wire::WallTime(std::chrono::seconds(time)));
}

// Columns two spaces apart; the last one may be long.
std::string aligned(const std::vector<Line>& lines) {
  std::vector<std::size_t> widths;
  for (const Line& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    std::string one;
    for (std::size_t i = 0; i < line.size(); ++i) {
      one += line[i];
      if (i + 1 < line.size()) one += std::string(widths[i] - line[i].size() + 2, ' ');
    }
    one.erase(one.find_last_not_of(' ') + 1);
    text += wire::printable(one) + "\n";
  }
  return text;
}

std::string kept_text(const Contents& contents) {
  if (contents.names == 0) return std::to_string(contents.copies) + " kept";
  return std::to_string(contents.copies + contents.names) + " kept, " +
         std::to_string(contents.names) + " by a second name";
}

Line marks_of(const guard::Record& record, const Generation& one) {
  Line marks;
  if (one.number == record.newest_number())
    marks.emplace_back(record.restoring ? "newest, being put back" : "newest");
  if (one.failed) marks.emplace_back("failed");
  if (record.tried == one.number) marks.emplace_back("tried");
  return marks;
}

std::string joined(const Line& words) {
  std::string text;
  for (const std::string& each : words) text += (text.empty() ? "" : ", ") + each;
  return text;
}

}  // namespace

std::string text_of(const Inventory& inventory) {
  const guard::Record& record = inventory.record;
  std::string text = (inventory.where.mount / inventory.where.directory).string() + "\n";
  std::vector<Line> lines{
      {"GENERATION", "WHEN", "STEP", "CHECKPOINT", "FILES", "SIZE", "KEPT", ""}};
  for (const Generation& each : record.generations) {
    const Contents& contents = inventory.contents.at(each.number);
    lines.push_back({std::to_string(each.number), time_text(each.time), std::to_string(each.step),
                     each.name.empty() ? "none" : each.name, std::to_string(contents.files),
                     bytes_text(contents.bytes), kept_text(contents),
                     joined(marks_of(record, each))});
  }
  text += record.generations.empty() ? "no generation yet\n" : aligned(lines);
  if (record.away.empty()) return text + "nothing is put away\n";
  lines = {{"PUT AWAY", "WHEN", "SIZE", "NAMES", "WHY"}};
  for (const Away& each : record.away)
    lines.push_back({std::to_string(each.number), time_text(each.time), bytes_text(each.bytes),
                     guard::some_of(each.names), each.why});
  return text + aligned(lines);
}

std::string json_of(const Inventory& inventory) {
  using nlohmann::ordered_json;
  const guard::Record& record = inventory.record;
  ordered_json generations = ordered_json::array(), away = ordered_json::array();
  for (const Generation& each : record.generations) {
    const Contents& contents = inventory.contents.at(each.number);
    generations.push_back({{"number", each.number},
                           {"time", each.time},
                           {"step", each.step},
                           {"checkpoint", each.name},
                           {"files", contents.files},
                           {"bytes", contents.bytes},
                           {"copies", contents.copies},
                           {"second_names", contents.names},
                           {"marks", marks_of(record, each)}});
  }
  for (const Away& each : record.away)
    away.push_back({{"number", each.number},
                    {"time", each.time},
                    {"bytes", each.bytes},
                    {"names", each.names},
                    {"why", each.why}});
  const ordered_json document = {{"storage", inventory.where.mount.string()},
                                 {"directory", inventory.where.directory},
                                 {"files", inventory.where.files},
                                 {"folders", inventory.where.folders},
                                 {"restoring", record.restoring},
                                 {"generations", std::move(generations)},
                                 {"away", std::move(away)}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace spotter::command
