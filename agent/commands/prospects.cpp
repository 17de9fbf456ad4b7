#include "agent/commands/prospects.hpp"

#include <map>

#include "agent/aws/s3/client.hpp"
#include "agent/base/json.hpp"

namespace spotter::command {
namespace {

constexpr std::chrono::minutes fresh_for{10};  // a status is published every two minutes

// The newest price of each pool.
using Newest = std::map<std::pair<std::string, std::string>, wire::SpotPrice>;

Newest newest_of(const std::vector<wire::SpotPrice>& all, const config::Launch& launch) {
  Newest newest;
  for (const wire::SpotPrice& it : all) {
    const auto& zones = launch.zones;
    if (!zones.empty() && std::ranges::find(zones, it.zone.str()) == zones.end()) continue;
    if (it.dollars_per_hour <= 0) continue;
    auto [at, is_new] = newest.try_emplace({it.type.str(), it.zone.str()}, it);
    if (!is_new && it.since > at->second.since) at->second = it;
  }
  return newest;
}

std::string trouble_of(const Result<std::vector<wire::SpotPrice>, CallError>& spot) {
  return spot ? "there is no spot price of its types in its zones" : spot.error().message;
}

void read_spot(AwsCalls& calls, const config::Launch& launch, PoolPrices& prices) {
  wire::DescribeSpotPriceHistory history;
  for (const std::string& type : launch.instance_types) history.types.emplace_back(type);
  history.start = calls.now();
  const auto spot = calls.ask_all(std::move(history));
  const Newest newest = spot ? newest_of(*spot, launch) : Newest();
  const auto dollars = [](const auto& it) { return it.second.dollars_per_hour; };
  const auto cheapest = std::ranges::min_element(newest, {}, dollars);
  if (cheapest == newest.end()) {
    prices.trouble = trouble_of(spot);
    return;
  }
  prices.spot = cheapest->second.dollars_per_hour;
  prices.zone = cheapest->first.second;
  for (const auto& [pool, price] : newest)
    prices.pools.push_back({pool.first, pool.second, price.dollars_per_hour});
}

}  // namespace

void guess_unknown(PoolPrices& prices) {
  constexpr double usual_ratio = 0.35;  // of spot to on-demand prices
  if (!prices.known.on_demand && prices.known.spot) prices.on_demand = prices.spot / usual_ratio;
  if (!prices.known.spot) prices.spot = prices.on_demand * usual_ratio;
}

PoolPrices prices_now(AwsCalls& calls, const config::Launch& launch) {
  PoolPrices prices;
  read_spot(calls, launch, prices);
  std::optional<double> least;
  for (const std::string& type : launch.instance_types) {
    const auto price = calls.ask(wire::GetProducts{InstanceType(type), calls.region()});
    if (price && *price > 0)
      least = std::min(least.value_or(*price), *price);
    else if (!price && prices.trouble.empty())
      prices.trouble = price.error().message;
  }
  prices.known = {.on_demand = least.has_value(), .spot = !prices.zone.empty()};
  if (least) prices.on_demand = *least;
  guess_unknown(prices);
  return prices;
}

Result<std::optional<launch::Published>> published_progress(const config::Job& job) {
  const auto place = job.published_at();
  if (!place) return failure("the job has no `publish:`");
  s3::Client client(
      {.environment = act::Environment::of_this_process(), .patience = std::chrono::seconds(20)});
  const auto answer = client.perform({.bucket = place->bucket, .key = place->key + "status.json"});
  if (!answer && answer.error().kind == s3::Failure::Kind::NoSuchKey) return std::nullopt;
  if (!answer) return failure(answer.error().text());
  const auto status = TRY(behind("the published status", wire::parse_json_object(answer->body)));
  const auto number = [&](const char* name) {
    return std::max(0.0, wire::number_field(status, name).value_or(0));
  };
  // Both by S3's clock: neither this machine's nor the instance's need be right.
  const auto now = wire::parse_http_date(answer->header("date"));
  const auto written = wire::parse_http_date(answer->header("last-modified"));
  const bool fresh = now && written && *now - *written < fresh_for;
  launch::Published published;
  published.progress = {.step = number("checkpoint_step"),
                        .total = number("steps_total"),
                        .repeated = number("steps_repeated"),
                        .trained = number("trained_seconds") / 3600,
                        .steps_an_hour = fresh ? number("steps_per_second") * 3600 : 0,
                        .dollars = number("spent_dollars")};
  published.stage = wire::text_field(status, "stage");
  if (const auto id = wire::text_field(status, "instance"); InstanceId::fits(id))
    published.instance = InstanceId(id);
  if (written) published.at = *written;
  published.has_step = wire::number_field(status, "step").has_value();
  return published;
}

}  // namespace spotter::command
