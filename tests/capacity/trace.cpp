#include "tests/capacity/trace.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "agent/base/clock_text.hpp"

namespace spotter::capacity {
namespace {

struct Point {
  double seconds = 0;
  bool available = false;
  double dollars = 0;
};

struct Points {
  std::vector<Point> all;
  bool dated = false;  // since 1970
};

using Fields = std::vector<std::string>;

std::optional<double> number(std::string_view text) {
  double value = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& each : small) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return small;
}

// 2026-12-04T18:00:00Z; seconds and zone (then UTC) may be missing.
std::optional<double> date(std::string text) {
  constexpr std::size_t minutes_end = 16, seconds_end = 19;
  if (text.size() < minutes_end || text[4] != '-') return std::nullopt;
  text[10] = 'T';
  if (text.size() == minutes_end || text[minutes_end] != ':') text.insert(minutes_end, ":00");
  if (text.find_first_of("Zz+-", seconds_end) == text.npos) text += 'Z';
  const auto time = wire::parse_rfc3339(text);
  if (!time) return std::nullopt;
  return static_cast<double>(time->time_since_epoch().count());
}

std::optional<double> count(std::string_view text) {
  const std::string word = lower(text);
  if (word == "true" || word == "yes" || word == "up" || word == "available") return 1;
  if (word == "false" || word == "no" || word == "down" || word == "unavailable") return 0;
  return number(word);
}

// A blank ends a field only where nothing else does: dates have one.
Fields fields_of(std::string_view line) {
  const bool commas = line.find(',') != line.npos, semicolons = line.find(';') != line.npos;
  const std::string_view ends = commas ? "," : semicolons ? ";" : " \t";
  Fields fields(1);
  for (const char each : line) {
    if (ends.find(each) == ends.npos)
      fields.back() += each;
    else if (commas || semicolons || !fields.back().empty())
      fields.emplace_back();
  }
  for (std::string& it : fields) {
    std::erase_if(it, [](char each) { return each == '"' || each == '\r'; });
    it.erase(0, std::min(it.find_first_not_of(" \t"), it.size()));
    it.erase(it.find_last_not_of(" \t") + 1);
  }
  return fields;
}

// The places of the columns, as the first line says, or the usual ones.
struct Columns {
  std::size_t time = 0, available = 1, dollars = 2;
  double unit = 0;  // seconds; 0: it does not say
};

bool has(const std::string& name, std::initializer_list<const char*> parts) {
  return std::ranges::any_of(parts, [&](const char* it) { return name.find(it) != name.npos; });
}

Columns columns_of(const Fields& names) {
  Columns columns;
  std::optional<std::size_t> time, available, dollars;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = lower(names[i]);
    if (!dollars && has(name, {"price", "dollar", "cost", "usd"}))
      dollars = i;
    else if (!available && has(name, {"avail", "capacity", "count", "up"}))
      available = i;
    else if (!time && has(name, {"time", "second", "minute", "hour", "date", "ms", "sec"})) {
      time = i;
      if (has(name, {"ms", "milli"}) && !has(name, {"times"}))
        columns.unit = 1e-3;
      else if (has(name, {"hour"}))
        columns.unit = 3600;
      else if (has(name, {"minute"}))
        columns.unit = 60;
      else if (has(name, {"sec"}))
        columns.unit = 1;
    }
  }
  if (!time || !available) return {.unit = columns.unit};
  columns.time = *time;
  columns.available = *available;
  columns.dollars = dollars.value_or(names.size());
  return columns;
}

double median_gap(const std::vector<Point>& points) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < points.size(); ++i)
    if (const double gap = points[i].seconds - points[i - 1].seconds; gap > 0) gaps.push_back(gap);
  if (gaps.empty()) return 0;
  std::ranges::nth_element(gaps, gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2));
  return gaps[gaps.size() / 2];
}

double unit_of(const std::vector<Point>& points) {
  constexpr double milliseconds_of_today = 1e11, few = 5;
  if (points.front().seconds > milliseconds_of_today) return 1e-3;
  return median_gap(points) < few ? 3600 : 1;
}

constexpr double since_1970 = 1e8;

// Sorted; of two of one time the later line holds.
Points settled(std::vector<Point> all, bool dated, double unit) {
  std::ranges::stable_sort(all, {}, &Point::seconds);
  if (!dated && !all.empty()) {
    if (unit == 0) unit = unit_of(all);
    for (Point& it : all) it.seconds *= unit;
    dated = all.front().seconds > since_1970;
  }
  std::vector<Point> kept;
  for (const Point& it : all) {
    if (!kept.empty() && kept.back().seconds == it.seconds) kept.pop_back();
    kept.push_back(it);
  }
  return {std::move(kept), dated};
}

tl::unexpected<Error> wrong(std::size_t line) {
  return failure("line " + std::to_string(line) + " is not a time, available or not, and a price");
}

Result<Points> points_of_lines(std::string_view text, const Reading& reading) {
  std::vector<Point> all;
  std::set<std::string> nodes;
  bool dated = false, events = false;
  Columns columns;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (std::size_t at = 1, read = 0; std::getline(lines, line); ++at) {
    const Fields fields = fields_of(line);
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (line.starts_with('#')) continue;
    const auto field = [&](std::size_t i) { return i < fields.size() ? fields[i] : std::string(); };
    auto time = number(field(columns.time));
    const auto day = time ? std::nullopt : date(field(columns.time));
    if (++read == 1 && !time && !day) {
      columns = columns_of(fields);
      continue;
    }
    dated = dated || day;
    if (!time) time = day;
    const std::string what = lower(field(1));
    if (what == "add" || what == "remove") {
      events = true;
      if (what == "add")
        nodes.insert(field(2));
      else
        nodes.erase(field(2));
      if (!time) return wrong(at);
      all.push_back({*time, static_cast<double>(nodes.size()) >= reading.at_least, reading.usual});
      continue;
    }
    const auto there = count(field(columns.available));
    const std::string price = field(columns.dollars);
    const auto dollars = price.empty() ? std::optional(reading.usual) : number(price);
    if (!time || !there || !dollars || *dollars <= 0) return wrong(at);
    const bool available = (*there > 0 && *there >= reading.at_least) != reading.one_is_lost;
    all.push_back({*time, available, *dollars});
  }
  return settled(std::move(all), dated, events ? 1e-3 : columns.unit);
}

Result<Points> points_of_json(std::string_view text, const Reading& reading) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto metadata = json.value("metadata", nlohmann::json::object());
  const double gap = metadata.is_object() && metadata.contains("gap_seconds") &&
                             metadata["gap_seconds"].is_number()
                         ? metadata["gap_seconds"].get<double>()
                         : 0;
  const auto data = json.value("data", nlohmann::json::array());
  const auto prices = json.value("prices", nlohmann::json::array());
  if (!(gap > 0) || !data.is_array() || data.empty())
    return failure("there is no gap_seconds, or no data");
  std::vector<Point> all;
  for (const auto& it : data) {
    const bool known = it.is_number() || it.is_boolean();
    if (!known) return failure("data has more than numbers");
    const double there = it.is_boolean() ? (it.get<bool>() ? 1 : 0) : it.get<double>();
    double dollars = reading.usual;
    if (prices.is_array() && all.size() < prices.size() && prices[all.size()].is_number())
      dollars = prices[all.size()].get<double>();
    if (!(dollars > 0)) return failure("prices has one that is not above 0");
    const bool available = (there > 0 && there >= reading.at_least) != reading.one_is_lost;
    all.push_back({gap * static_cast<double>(all.size()), available, dollars});
  }
  all.push_back(all.back());
  all.back().seconds += gap;
  return Points{std::move(all), false};
}

Result<Points> points_of(std::string_view text, const Reading& reading) {
  const auto first = text.find_first_not_of(" \n\r\t");
  const bool json = first != text.npos && text[first] == '{';
  if (json && !nlohmann::json::accept(text)) return failure("it is not valid JSON");
  auto points = json ? points_of_json(text, reading) : points_of_lines(text, reading);
  if (points && points->all.size() < 2) return failure("it has fewer than two points");
  return points;
}

MarketPool pool_of(const std::vector<Point>& points, double begin, double tick) {
  MarketPool pool;
  const double seconds = tick * 3600;
  // A tick that rounding has cut short is one.
  const auto ticks =
      static_cast<std::size_t>(std::max(0.0, (points.back().seconds - begin) / seconds + 1e-6));
  for (std::size_t i = 0, at = 0; i < ticks; ++i) {
    const double from = begin + static_cast<double>(i) * seconds;
    while (at + 1 < points.size() && points[at + 1].seconds <= from + 1e-6) ++at;
    bool available = points[at].available;
    for (std::size_t j = at + 1; j < points.size() && points[j].seconds < from + seconds - 1e-6;
         ++j)
      available = available && points[j].available;
    pool.available.push_back(available);
    pool.dollars.push_back(points[at].dollars);
  }
  return pool;
}

std::vector<std::filesystem::path> files_of(const std::vector<std::string>& places) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const fs::path place : places) {
    if (!fs::is_directory(place)) files.push_back(place);
    if (!fs::is_directory(place)) continue;
    for (const auto& entry : fs::directory_iterator(place))
      for (const char* extension : {".csv", ".json", ".txt"})
        if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<MarketPool> parse_pool(std::string_view text, const Reading& reading) {
  const auto points = points_of(text, reading);
  if (!points) return tl::unexpected(points.error());
  return pool_of(points->all, points->all.front().seconds, reading.tick);
}

namespace {

// Gives us-west-2 for g5.xlarge_us-west-2a. Empty: the name says none.
std::string region_of(const std::string& name) {
  const auto zone = name.rfind('_') == name.npos ? "" : name.substr(name.rfind('_') + 1);
  const auto digit = zone.find_last_of("0123456789");
  const bool is_zone =
      digit != zone.npos && digit + 2 == zone.size() && std::ranges::count(zone, '-') >= 2;
  return is_zone ? zone.substr(0, zone.size() - 1) : "";
}

std::size_t place_of(const std::string& region, std::vector<std::string>& known) {
  const auto found = std::ranges::find(known, region);
  if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
  known.push_back(region);
  return known.size() - 1;
}

}  // namespace

Result<Market> load_market(const std::vector<std::string>& places, const Reading& reading,
                           double on_demand) {
  const auto files = files_of(places);
  if (files.empty()) return failure("there is no trace");
  std::vector<Points> all;
  for (const auto& file : files) {
    std::ifstream stream(file);
    std::ostringstream text;
    text << stream.rdbuf();
    if (!stream) return failure(file.string() + ": cannot be read");
    auto points = points_of(text.str(), reading);
    if (!points) return failure(file.string() + ": " + points.error().message);
    all.push_back(std::move(*points));
  }
  double latest = 0;
  const bool dated = std::ranges::all_of(all, &Points::dated);
  for (const Points& it : all) latest = std::max(latest, it.all.front().seconds);
  Market market{.tick = reading.tick, .on_demand = on_demand, .pools = {}, .move = reading.move};
  std::vector<std::string> regions;
  std::size_t ticks = static_cast<std::size_t>(-1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    market.pools.push_back(
        pool_of(all[i].all, dated ? latest : all[i].all.front().seconds, reading.tick));
    market.pools.back().name = files[i].stem();
    MarketPool& pool = market.pools.back();
    const std::string region = region_of(pool.name);
    pool.place = place_of(region, regions);
    if (!region.empty()) pool.type = pool.name.substr(0, pool.name.rfind('_'));
    ticks = std::min(ticks, market.pools.back().available.size());
  }
  market.regions = regions;
  if (ticks == 0)
    return failure(dated ? "the traces have less than a tick in common"
                         : "the traces are shorter than a tick");
  for (MarketPool& pool : market.pools) {
    pool.available.resize(ticks);
    pool.dollars.resize(ticks);
  }
  return market;
}

}  // namespace spotter::capacity
