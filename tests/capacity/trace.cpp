#include "tests/capacity/trace.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace spotter::capacity {
namespace {

struct Point {
  double seconds = 0;
  bool available = false;
  double dollars = 0;
};

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

Result<std::vector<Point>> points_of_lines(std::string_view text, double usual) {
  std::vector<Point> points;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (std::size_t count = 1; std::getline(lines, line); ++count) {
    std::erase(line, '\r');
    if (line.empty()) continue;
    std::vector<std::string> fields;
    std::istringstream rest(line);
    for (std::string field; std::getline(rest, field, ',');) fields.push_back(field);
    const auto at = number(fields[0]);
    if (!at && count == 1) continue;
    const auto available = fields.size() > 1 ? number(fields[1]) : std::nullopt;
    const auto dollars = fields.size() > 2 ? number(fields[2]) : std::optional(usual);
    if (!at || !available || !dollars || *dollars <= 0)
      return failure("line " + std::to_string(count) + " is not seconds,available,dollars");
    if (!points.empty() && *at <= points.back().seconds)
      return failure("line " + std::to_string(count) + " is not later than the one before it");
    points.push_back({*at, *available > 0, *dollars});
  }
  return points;
}

Result<std::vector<Point>> points_of_json(std::string_view text, double usual) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto gap = json.value("/metadata/gap_seconds"_json_pointer, 0.0);
  const auto data = json.value("data", nlohmann::json::array());
  if (gap <= 0 || !data.is_array()) return failure("there is no gap_seconds, or no data");
  std::vector<Point> points;
  for (const auto& count : data) {
    if (!count.is_number()) return failure("data has more than numbers");
    points.push_back({gap * static_cast<double>(points.size()), count.get<double>() > 0, usual});
  }
  if (!points.empty()) points.push_back({gap * static_cast<double>(points.size()), false, usual});
  return points;
}

}  // namespace

Result<MarketPool> parse_pool(std::string_view text, double tick, double usual) {
  const bool json =
      text.find_first_not_of(" \n\t") != text.npos && text[text.find_first_not_of(" \n\t")] == '{';
  if (json && !nlohmann::json::accept(text)) return failure("it is not valid JSON");
  const auto points = json ? points_of_json(text, usual) : points_of_lines(text, usual);
  if (!points) return tl::unexpected(points.error());
  if (points->size() < 2) return failure("it has fewer than two points");
  MarketPool pool;
  const double begin = points->front().seconds, seconds = tick * 3600;
  const auto ticks = static_cast<std::size_t>((points->back().seconds - begin) / seconds);
  for (std::size_t i = 0, at = 0; i < ticks; ++i) {
    const double from = begin + static_cast<double>(i) * seconds;
    while (at + 1 < points->size() && (*points)[at + 1].seconds <= from) ++at;
    bool available = (*points)[at].available;
    for (std::size_t j = at + 1; j < points->size() && (*points)[j].seconds < from + seconds; ++j)
      available = available && (*points)[j].available;
    pool.available.push_back(available);
    pool.dollars.push_back((*points)[at].dollars);
  }
  return pool;
}

Result<Market> load_market(const std::vector<std::string>& places, double tick, double on_demand,
                           double usual) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const fs::path place : places) {
    if (!fs::is_directory(place)) files.push_back(place);
    if (!fs::is_directory(place)) continue;
    for (const auto& entry : fs::directory_iterator(place))
      if (entry.path().extension() == ".csv" || entry.path().extension() == ".json")
        files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) return failure("there is no trace");
  Market market{.tick = tick, .on_demand = on_demand, .pools = {}};
  std::size_t ticks = static_cast<std::size_t>(-1);
  for (const fs::path& file : files) {
    std::ifstream stream(file);
    if (!stream) return failure(file.string() + ": cannot be read");
    std::ostringstream text;
    text << stream.rdbuf();
    auto pool = parse_pool(text.str(), tick, usual);
    if (!pool) return failure(file.string() + ": " + pool.error().message);
    pool->name = file.stem();
    ticks = std::min(ticks, pool->available.size());
    market.pools.push_back(std::move(*pool));
  }
  if (ticks == 0) return failure("the traces are shorter than a tick");
  for (MarketPool& pool : market.pools) {
    pool.available.resize(ticks);
    pool.dollars.resize(ticks);
  }
  return market;
}

}  // namespace spotter::capacity
