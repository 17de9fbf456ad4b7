// The whole world as JSON, for people, the demo's timeline and tests.
#include <nlohmann/json.hpp>

#include "tests/world/world.hpp"

namespace spotter::world {

namespace {

using nlohmann::json;

template <class State, std::size_t Size>
std::string_view name_of(State state, const std::string_view (&names)[Size]) {
  return names[static_cast<std::size_t>(state)];
}

double seconds(Time time) { return static_cast<double>(time.time_since_epoch().count()) / 1000.0; }

json describe(const Instance& it) {
  return {{"id", it.id.str()},
          {"zone", it.zone.str()},
          {"type", it.type.str()},
          {"fleet", it.fleet.id.str()},
          {"state", name(it.state)},
          {"launched", seconds(it.launched)},
          {"died", it.died ? json(seconds(*it.died)) : json()},
          {"reason", it.reason},
          {"notice", it.notice ? json(seconds(it.notice->deadline)) : json()},
          {"tags", it.tags}};
}

json describe(const Volume& it) {
  constexpr std::string_view states[] = {"creating", "available", "in-use",
                                         "deleting", "deleted",   "error"};
  constexpr std::string_view attachments[] = {"attaching", "attached", "detaching", "busy"};
  json attachment;
  if (it.attachment) {
    attachment = {{"instance", it.attachment->instance.str()},
                  {"device", it.attachment->device},
                  {"state", name_of(it.attachment->state, attachments)}};
  }
  return {{"id", it.id.str()},
          {"zone", it.zone.str()},
          {"gibibytes", it.gibibytes},
          {"snapshot", it.snapshot ? json(it.snapshot->str()) : json()},
          {"state", name_of(it.state, states)},
          {"created", seconds(it.created)},
          {"attachment", attachment},
          {"tags", it.tags}};
}

json describe(const Snapshot& it) {
  constexpr std::string_view states[] = {"pending", "completed", "error", "recoverable", "deleted"};
  return {{"id", it.id.str()},
          {"volume", it.volume.str()},
          {"state", name_of(it.state, states)},
          {"started", seconds(it.started)},
          {"ends", seconds(it.ends)},
          {"tags", it.tags}};
}

json describe(const FleetRequest& it) {
  constexpr std::string_view kinds[] = {"", "spot-fleet", "ec2-fleet", "auto-scaling-group"};
  json instances = json::array();
  for (const InstanceId& id : it.instances) instances.push_back(id.str());
  return {{"id", it.fleet.id.str()},
          {"kind", kinds[static_cast<std::size_t>(it.fleet.kind)]},
          {"state", name(it.state, it.fleet.kind)},
          {"target", it.target},
          {"created", seconds(it.created)},
          {"instances", instances},
          {"tags", it.tags}};
}

}  // namespace

// Times are seconds since Time{0}. Deleted volumes and snapshots stay out, ended instances and
// fleets stay in.
std::string World::state_json(Time now) {
  enter(now);
  json state = {{"now", seconds(cloud_.now)},
                {"wall", xml_time(cloud_.wall(cloud_.now))},
                {"region", cloud_.settings.region.str()},
                {"zones", json::array()},
                {"instances", json::array()},
                {"volumes", json::array()},
                {"snapshots", json::array()},
                {"fleets", json::array()},
                {"pools", json::array()},
                {"reservations", json::array()},
                {"events", json::array()}};
  for (const Zone& zone : cloud_.settings.zones) state["zones"].push_back(zone.str());
  cloud_.instances.each([&](const Instance& it) { state["instances"].push_back(describe(it)); });
  cloud_.volumes.each([&](const Volume& it) {
    if (it.state != VolumeState::Deleted) state["volumes"].push_back(describe(it));
  });
  cloud_.snapshots.each([&](const Snapshot& it) {
    if (it.state != SnapshotState::Deleted) state["snapshots"].push_back(describe(it));
  });
  cloud_.fleets.each([&](const FleetRequest& it) { state["fleets"].push_back(describe(it)); });
  for (const auto& [pool, it] : cloud_.pools)
    state["pools"].push_back({{"id", pool.first.str() + " " + pool.second.str()},
                              {"available", it.available},
                              {"dollars", it.prices.back().second}});
  for (const auto& [id, it] : cloud_.reservations)
    state["reservations"].push_back({{"id", id},
                                     {"kind", it.market},
                                     {"type", it.type.str()},
                                     {"zone", it.zone.str()},
                                     {"instances", it.target},
                                     {"ends", it.ends ? json(seconds(*it.ends)) : json()}});
  for (const HistoryEvent& it : cloud_.history) {
    state["events"].push_back({{"at", seconds(it.at)},
                               {"kind", it.kind},
                               {"subject", it.subject},
                               {"detail", it.detail}});
  }
  return state.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace spotter::world
