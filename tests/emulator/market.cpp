#include "tests/emulator/market.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/capacity/trace.hpp"
#include "tests/emulator/duration.hpp"

namespace spotter::emulator {
namespace {

using nlohmann::json;

double hours_of(Duration duration) {
  return std::chrono::duration<double, std::ratio<3600>>(duration).count();
}

Result<Duration> duration_of(const char* option, const std::string& text) {
  const auto duration = parse_duration(text);
  if (!duration) return failure(std::string(option) + ": " + duration.error().message);
  return *duration;
}

struct Replay {
  capacity::Market market;
  std::vector<PoolName> names;
  std::size_t first = 0, end = 0;  // ticks
  json lead;                       // null: the emulator's own
};

// Ticks of which any part lies between the two.
Result<void> limit(Replay& replay, const MarketOptions& options, double tick) {
  const auto from = duration_of("--from", options.from);
  if (!from) return tl::unexpected(from.error());
  replay.first = static_cast<std::size_t>(hours_of(*from) / tick + 1e-6);
  replay.end = replay.market.ticks();
  if (!options.until.empty()) {
    const auto until = duration_of("--until", options.until);
    if (!until) return tl::unexpected(until.error());
    replay.end =
        std::min(replay.end, static_cast<std::size_t>(std::ceil(hours_of(*until) / tick - 1e-6)));
  }
  if (replay.first >= replay.end)
    return failure("there is nothing of the trace, of " + std::to_string(replay.market.ticks()) +
                   " ticks, between --from and --until");
  return {};
}

Result<Replay> read(const MarketOptions& options) {
  const auto tick = duration_of("--tick", options.tick);
  if (!tick) return tl::unexpected(tick.error());
  if (tick->count() <= 0) return failure("--tick " + options.tick + ": it has to be above 0");
  // The price list has the price of on-demand capacity, not this trace.
  auto market =
      capacity::load_market(options.places, {.tick = hours_of(*tick), .usual = options.usual}, 1);
  if (!market) return tl::unexpected(market.error());
  Replay replay{.market = std::move(*market), .names = {}, .lead = nullptr};
  for (const auto& pool : replay.market.pools) {
    auto name = pool_named(pool.name);
    if (!name) return tl::unexpected(name.error());
    replay.names.push_back(std::move(*name));
  }
  if (!options.lead.empty()) {
    const auto lead = duration_of("--in", options.lead);
    if (!lead) return tl::unexpected(lead.error());
    replay.lead = lead->count();
  }
  if (auto limited = limit(replay, options, hours_of(*tick)); !limited)
    return tl::unexpected(limited.error());
  return replay;
}

// The changes of this tick; in the first one, all pools.
json changes_at(const Replay& replay, std::size_t tick) {
  json changes = json::array();
  for (std::size_t i = 0; i < replay.names.size(); ++i) {
    const auto& pool = replay.market.pools[i];
    const bool same = tick > replay.first && pool.available[tick] == pool.available[tick - 1] &&
                      pool.dollars[tick] == pool.dollars[tick - 1];
    if (same) continue;
    changes.push_back({{"type", replay.names[i].type},
                       {"zone", replay.names[i].zone},
                       {"available", static_cast<bool>(pool.available[tick])},
                       {"dollars", pool.dollars[tick]}});
  }
  return changes;
}

void print(double hours, const json& changes) {
  const auto seconds = std::lround(hours * 3600);
  for (const json& it : changes)
    std::printf(
        "%02ld:%02ld:%02ld %s %s: %s at $%.4g an hour\n", seconds / 3600, seconds / 60 % 60,
        seconds % 60, it["type"].get<std::string>().c_str(), it["zone"].get<std::string>().c_str(),
        it["available"].get<bool>() ? "capacity" : "no capacity", it["dollars"].get<double>());
  std::fflush(stdout);
}

}  // namespace

Result<PoolName> pool_named(std::string_view stem) {
  const auto between = stem.find('_');
  const auto type = stem.substr(0, between);
  const auto zone = between == stem.npos ? "" : stem.substr(between + 1);
  const bool whole = type.find('.') != type.npos && !zone.empty() && zone.find('_') == zone.npos;
  if (!whole || !InstanceType::fits(type) || !Zone::fits(zone))
    return failure("'" + std::string(stem) +
                   "' names no pool: a trace's file is named by instance type and zone, as in "
                   "g5.xlarge_us-west-2a.csv");
  return PoolName{std::string(type), std::string(zone)};
}

Result<void> replay(const Client& client, const MarketOptions& options) {
  const auto read_in = read(options);
  if (!read_in) return tl::unexpected(read_in.error());
  const double tick = read_in->market.tick;
  const auto begun = std::chrono::steady_clock::now();
  const auto wait_until = [&](std::size_t of_trace) {
    const auto ticks = static_cast<double>(of_trace - read_in->first);
    const std::chrono::duration<double> later(ticks * tick * 3600 / options.speed);
    std::this_thread::sleep_until(
        begun + std::chrono::duration_cast<std::chrono::steady_clock::duration>(later));
  };
  for (std::size_t i = read_in->first; i < read_in->end; ++i) {
    json body = {{"pools", changes_at(*read_in, i)}};
    if (!read_in->lead.is_null()) body["in_ms"] = read_in->lead;
    if (body["pools"].empty()) continue;
    wait_until(i);
    if (const auto set = client.call("market", body); !set) return tl::unexpected(set.error());
    print(static_cast<double>(i) * tick, body["pools"]);
  }
  wait_until(read_in->end);
  return {};
}

}  // namespace spotter::emulator
