#include "tests/world/pools.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tests/world/fleets.hpp"
#include "tests/world/instances.hpp"

namespace spotter::world {

namespace {

std::string dollars_text(double dollars) {
  char text[32];
  std::snprintf(text, sizeof text, "$%.4f", dollars);
  return text;
}

bool pays(const std::string& max_price, double dollars) {
  return max_price.empty() || std::strtod(max_price.c_str(), nullptr) >= dollars;
}

}  // namespace

Expected<void> Pools::check(const PoolChange& change) const {
  const std::string name = change.type.str() + " in " + change.zone.str();
  if (!cloud_.has_zone(change.zone))
    return refusal("InvalidParameterValue",
                   name + ": there is no such zone here (spotter-emulator serve --zones)");
  if (change.type.empty()) return refusal("InvalidParameterValue", name + ": which type?");
  if (!std::isfinite(change.dollars) || change.dollars <= 0)
    return refusal("InvalidParameterValue", name + ": its price is not above 0");
  return {};
}

Expected<void> Pools::set(const std::vector<PoolChange>& changes, Duration lead) {
  for (const PoolChange& it : changes)
    if (auto right = check(it); !right) return right;
  for (const PoolChange& it : changes) {
    SpotPool& pool = cloud_.pools[{it.type, it.zone}];
    pool.available = it.available;
    if (pool.prices.empty() || pool.prices.back().second != it.dollars)
      pool.prices.emplace_back(cloud_.now, it.dollars);
    cloud_.record("pool-set", it.type.str() + " " + it.zone.str(),
                  dollars_text(it.dollars) + (it.available ? "" : ", no capacity"));
  }
  for (const PoolChange& it : changes) interrupt_instances(it, lead);
  Fleets(cloud_).capacity_changed();
  return {};
}

// An instance that has a notice keeps it: capacity that is back before its end saves nobody.
void Pools::interrupt_instances(const PoolChange& change, Duration lead) {
  std::vector<InstanceId> hit;
  cloud_.instances.each([&](const Instance& it) {
    const bool here = it.type == change.type && it.zone == change.zone;
    if (here && is_spot(it) && is_alive(it) && !it.notice &&
        (!change.available || !world::pays(it.max_price, change.dollars)))
      hit.push_back(it.id);
  });
  for (const InstanceId& id : hit) Instances(cloud_).give_notice(id, lead);
}

bool Pools::has_room(const InstanceType& type, const Zone& zone,
                     const std::string& max_price) const {
  const auto found = cloud_.pools.find({type, zone});
  return (found == cloud_.pools.end() || found->second.available) &&
         world::pays(max_price, price(type, zone));
}

bool Pools::pays(const LaunchOption& option) const {
  return world::pays(option.max_price, price(option.type, option.zone));
}

double Pools::price(const InstanceType& type, const Zone& zone) const {
  const auto found = cloud_.pools.find({type, zone});
  return found == cloud_.pools.end() ? usual_price(type, zone) : found->second.prices.back().second;
}

// The first is older than any instance, as the price that is in force at StartTime is at AWS,
// whenever it was set.
std::vector<Pools::Price> Pools::prices(const InstanceType& type, const Zone& zone, WallTime from,
                                        WallTime until) const {
  std::vector<Price> all{
      {cloud_.settings.origin - std::chrono::hours(24), usual_price(type, zone)}};
  if (const auto found = cloud_.pools.find({type, zone}); found != cloud_.pools.end())
    for (const auto& [since, dollars] : found->second.prices)
      all.push_back({cloud_.wall(since), dollars});
  std::ranges::reverse(all);
  std::erase_if(all, [&](const Price& it) { return it.since > until; });
  const auto in_force =
      std::ranges::find_if(all, [&](const Price& it) { return it.since <= from; });
  if (in_force != all.end()) all.erase(in_force + 1, all.end());
  return all;
}

}  // namespace spotter::world
