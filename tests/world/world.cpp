#include "tests/world/world.hpp"

#include <algorithm>

#include "tests/world/reservations.hpp"

namespace spotter::world {

World::World(Settings settings, std::uint64_t seed) : cloud_(std::move(settings), seed) {}

void World::enter(Time now) { run_agenda(cloud_, now); }

std::vector<Occurrence> World::advance(Time now) {
  enter(now);
  return std::exchange(cloud_.occurrences, {});
}

// Occurrences that a call left behind are due at once.
std::optional<Time> World::next() const {
  if (!cloud_.occurrences.empty()) return cloud_.now;
  if (cloud_.agenda.empty()) return std::nullopt;
  return cloud_.agenda.begin()->first;
}

Time World::time(WallTime wall_time) const { return Time{} + (wall_time - cloud_.settings.origin); }

Volumes World::volumes(Time now) {
  enter(now);
  return Volumes(cloud_);
}

Snapshots World::snapshots(Time now) {
  enter(now);
  return Snapshots(cloud_);
}

Instances World::instances(Time now) {
  enter(now);
  return Instances(cloud_);
}

Fleets World::fleets(Time now) {
  enter(now);
  return Fleets(cloud_);
}

Templates World::templates(Time now) {
  enter(now);
  return Templates(cloud_);
}

std::optional<Credential> World::credential(std::string_view access_key, Time now) {
  enter(now);
  const auto found = cloud_.credentials.find(std::string(access_key));
  if (found == cloud_.credentials.end()) return std::nullopt;
  const Credential& it = found->second;
  if (it.expires && *it.expires <= cloud_.now) return std::nullopt;
  return it;
}

Expected<void> World::interrupt(const InstanceId& id, InterruptionAction action, Duration lead,
                                Time now) {
  return instances(now).interrupt(id, action, lead);
}

Expected<void> World::rebalance(const InstanceId& id, Time now) {
  return instances(now).rebalance(id);
}

Expected<void> World::withdraw(const InstanceId& id, Time now) {
  return instances(now).withdraw(id);
}

// Without a notice: the host broke, as far as the API tells.
Expected<void> World::kill(const InstanceId& id, Time now) {
  return instances(now).kill(id, "Server.SpotInstanceTermination: killed without a notice");
}

Expected<InstanceId> World::add_instance(const Zone& zone, const InstanceType& type, Time now) {
  enter(now);
  LaunchInstance request{.option = {.image = "ami-0123456789abcdef0", .type = type, .zone = zone},
                         .process = false};
  auto launched = Instances(cloud_).launch(request);
  if (!launched) return tl::unexpected(launched.error());
  Instances(cloud_).on(InstanceRuns{launched->id});
  return launched->id;
}

void World::set_mounted(const VolumeId& volume, bool mounted, Time now) {
  volumes(now).set_mounted(volume, mounted);
}

void World::set_capacity(const Zone& zone, std::optional<int> instances_that_fit, Time now) {
  enter(now);
  Capacity& capacity = cloud_.capacity[zone];
  capacity.limit = instances_that_fit;
  capacity.empty_until = cloud_.now;
  cloud_.record("capacity-set", zone.str(),
                instances_that_fit ? std::to_string(*instances_that_fit) : "any");
  Fleets(cloud_).capacity_changed();
}

void World::set_on_demand(const Zone& zone, std::optional<int> instances_that_fit, Time now) {
  enter(now);
  cloud_.capacity[zone].on_demand = instances_that_fit;
  Fleets(cloud_).capacity_changed();
}

Expected<void> World::set_pools(const std::vector<PoolChange>& changes, Duration lead, Time now) {
  enter(now);
  return Pools(cloud_).set(changes, lead);
}

Expected<std::string> World::reserve(CapacityReservation reservation, Time now) {
  enter(now);
  return Reservations(cloud_).make(std::move(reservation));
}

Expected<void> World::reclaim(const std::string& id, int instances, Duration lead, bool in_metadata,
                              Time now) {
  enter(now);
  return Reservations(cloud_).reclaim(id, instances, lead, in_metadata);
}

std::vector<Pools::Price> World::prices(const InstanceType& type, const Zone& zone) {
  return Pools(cloud_).prices(type, zone, WallTime{}, cloud_.wall(cloud_.now));
}

}  // namespace spotter::world
