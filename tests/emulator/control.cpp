#include "tests/emulator/control.hpp"

#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>

namespace spotter::emulator {
namespace {

using nlohmann::json;

HttpResponse answer_with(int status, const json& body) {
  return {status, body.dump() + "\n", "application/json"};
}

HttpResponse error(int status, const std::string& message) {
  return answer_with(status, {{"error", message}});
}

std::string text(const json& body, const char* name, const char* otherwise = "") {
  const auto found = body.find(name);
  return found != body.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

}  // namespace

HttpResponse Control::answer(const HttpRequest& request) {
  std::string_view what = request.path();
  what.remove_prefix(std::string_view("/_spotter/").size());
  if (request.method == "GET" && what == "health") return health();
  if (request.method == "GET" && what == "state") return state();
  if (request.method == "GET" && what == "faults") return answer_with(200, json(fault_names()));
  if (request.method != "POST") return error(404, "no such control: " + std::string(what));
  const auto body = json::parse(request.body.empty() ? "{}" : request.body, nullptr, false);
  if (!body.is_object()) return error(400, "the body is not a JSON object");
  return post(what, body);
}

HttpResponse Control::health() {
  json regions = json::array();
  for (const auto& world : parts_.regions.all()) regions.push_back(world->settings().region.str());
  return answer_with(200,
                     {{"status", "running"}, {"version", parts_.version}, {"regions", regions}});
}

HttpResponse Control::state() {
  const auto state_of = [this](world::World& world) {
    return json::parse(world.state_json(parts_.now()), nullptr, false);
  };
  auto document = state_of(parts_.regions.home());
  document["mode"] = parts_.mode;
  describe_s3(document);
  document["batch"] = parts_.batch.describe();
  describe_machines(document);
  document["regions"] = json::object();
  for (const auto& world : parts_.regions.all()) {
    if (world.get() == &parts_.regions.home()) continue;
    auto other = state_of(*world);
    describe_machines(other);
    document["regions"][world->settings().region.str()] = std::move(other);
  }
  return answer_with(200, document);
}

void Control::describe_machines(json& document) {
  for (auto& instance : document["instances"]) {
    const InstanceId id(text(instance, "id"));
    if (const auto endpoint = parts_.machines.metadata_endpoint(id); !endpoint.empty())
      instance["metadata"] = endpoint;
    if (const auto pid = parts_.machines.inside(id)) instance["pid"] = *pid;
  }
}

void Control::describe_s3(json& document) {
  document["buckets"] = json::array();
  for (const s3::Bucket& bucket : parts_.s3.store().buckets())
    document["buckets"].push_back({{"id", bucket.name},
                                   {"region", bucket.region},
                                   {"anonymous", bucket.anonymous},
                                   {"uploads", parts_.s3.uploads().all(bucket.name).size()}});
  const auto usage = parts_.s3.usage();
  document["s3"] = {{"requests", usage.requests}, {"bytes_read", usage.bytes_read}};
}

HttpResponse Control::post(std::string_view what, const json& body) {
  if (what == "instance") return add_instance(body);
  if (what == "reserve") return reserve(body);
  if (what == "reset") {
    const auto done = parts_.reset();
    return done ? answer_with(200, json::object()) : error(500, done.error().message);
  }
  if (what == "stop") {
    parts_.stop();
    return answer_with(200, {{"stopping", true}, {"pid", ::getpid()}});
  }
  const auto changed = change(what, body);
  if (!changed) return error(changed.error().http_status, changed.error().message);
  parts_.settle();
  return answer_with(200, json::object());
}

HttpResponse Control::add_instance(const json& body) {
  const auto& zones = parts_.regions.home().settings().zones;
  const Zone zone(text(body, "zone", zones.empty() ? "" : zones.front().str().c_str()));
  const InstanceType type(text(body, "type", "p3.2xlarge"));
  const auto added = parts_.regions.of(zone).add_instance(zone, type, parts_.now());
  if (!added) return error(400, added.error().message);
  parts_.settle();
  return answer_with(
      200, {{"instance", added->str()}, {"metadata", parts_.machines.metadata_endpoint(*added)}});
}

HttpResponse Control::reserve(const json& body) {
  const auto in = [&](const char* name) {
    return parts_.now() + Duration{body.value(name, Duration::rep{0})};
  };
  const Zone zone(text(body, "zone"));
  world::CapacityReservation wanted{.market = text(body, "kind"),
                                    .type = InstanceType(text(body, "type")),
                                    .zone = zone,
                                    .total = body.value("instances", 1),
                                    .begins = in("begins_in_ms")};
  if (body.contains("ends_in_ms")) wanted.ends = in("ends_in_ms");
  const auto made = parts_.regions.of(zone).reserve(std::move(wanted), parts_.now());
  if (!made) return error(400, made.error().message);
  return answer_with(200, {{"reservation", *made}});
}

world::Expected<void> Control::reclaim(const json& body) {
  const std::string id = text(body, "reservation");
  world::World* there = &parts_.regions.home();
  for (const auto& world : parts_.regions.all())
    if (world->cloud().reservations.contains(id)) there = world.get();
  return there->reclaim(id, body.value("instances", 0), lead_of(body),
                        body.value("in_metadata", false), parts_.now());
}

world::Expected<void> Control::interrupt(const InstanceId& id, const json& body) {
  static const std::map<std::string, InterruptionAction> actions = {
      {"terminate", InterruptionAction::Terminate},
      {"stop", InterruptionAction::Stop},
      {"hibernate", InterruptionAction::Hibernate}};
  const std::string name = text(body, "action", "terminate");
  const auto action = actions.find(name);
  if (action == actions.end())
    return world::refusal("InvalidParameterValue",
                          "'" + name + "' is not one of terminate, stop, hibernate");
  return parts_.regions.of(id).interrupt(id, action->second, lead_of(body), parts_.now());
}

world::Expected<InstanceId> Control::instance_of(const json& body) {
  if (const std::string given = text(body, "instance"); !given.empty()) return InstanceId(given);
  std::vector<InstanceId> alive;
  for (const auto& world : parts_.regions.all())
    world->cloud().instances.each([&](const world::Instance& it) {
      if (world::is_alive(it)) alive.push_back(it.id);
    });
  if (alive.size() == 1) return alive.front();
  return world::refusal("MissingParameter",
                        "which instance? there are " + std::to_string(alive.size()) + " that live");
}

Duration Control::lead_of(const json& body) const {
  const auto given = body.find("in_ms");
  if (given == body.end() || !given->is_number_integer())
    return parts_.regions.home().settings().interruption_lead;
  return Duration{given->get<Duration::rep>()};
}

world::Expected<void> Control::market(const json& body) {
  const auto malformed = [] {
    return world::refusal("InvalidParameterValue",
                          "each of pools has a type, a zone, available and dollars");
  };
  const auto pools = body.find("pools");
  if (pools == body.end() || !pools->is_array()) return malformed();
  std::map<world::World*, std::vector<world::PoolChange>> changes;
  for (const json& it : *pools) {
    const bool whole = it.is_object() && it.contains("available") && it["available"].is_boolean() &&
                       it.contains("dollars") && it["dollars"].is_number();
    const std::string type = whole ? text(it, "type") : "", zone = whole ? text(it, "zone") : "";
    if (!InstanceType::fits(type) || !Zone::fits(zone)) return malformed();
    changes[&parts_.regions.of(Zone(zone))].push_back(
        {InstanceType(type), Zone(zone), it["available"].get<bool>(), it["dollars"].get<double>()});
  }
  for (const auto& [world, its] : changes)
    if (auto set = world->set_pools(its, lead_of(body), parts_.now()); !set) return set;
  return {};
}

std::vector<std::string> Control::fault_names() {
  auto lines = world::World::fault_names();
  for (auto& line : s3::Service::fault_names()) lines.push_back(std::move(line));
  for (auto& line : world::batch::Batch::setting_names()) lines.push_back(std::move(line));
  return lines;
}

// Applies to the region of a zone if one is given, else to all.
world::Expected<void> Control::fault_of_worlds(
    const std::string& name, const std::map<std::string, std::string>& arguments) {
  if (const auto zone = arguments.find("zone"); zone != arguments.end() && Zone::fits(zone->second))
    return parts_.regions.of(Zone(zone->second)).fault(name, arguments, parts_.now());
  for (const auto& world : parts_.regions.all())
    if (auto done = world->fault(name, arguments, parts_.now()); !done) return done;
  return {};
}

// A fault that EC2 and S3 both have (throttle, deny, ...) is passed to both.
world::Expected<void> Control::fault(const json& body) {
  std::map<std::string, std::string> arguments;
  if (const auto given = body.find("arguments"); given != body.end() && given->is_object())
    for (const auto& [name, value] : given->items())
      arguments[name] = value.is_string() ? value.get<std::string>() : value.dump();
  const std::string name = text(body, "name");
  if (s3::Service::is_own_fault(name)) return parts_.s3.fault(name, arguments);
  if (name.starts_with("batch-")) return parts_.batch.set(name, arguments);
  auto changed = fault_of_worlds(name, arguments);
  if (changed && world::s3::Faults::shares(name)) return parts_.s3.fault(name, arguments);
  return changed;
}

world::Expected<void> Control::change(std::string_view what, const json& body) {
  const Time now = parts_.now();
  if (what == "interrupt" || what == "rebalance" || what == "withdraw" || what == "kill") {
    const auto id = instance_of(body);
    if (!id) return tl::unexpected(id.error());
    world::World& world = parts_.regions.of(*id);
    if (what == "interrupt") return interrupt(*id, body);
    if (what == "rebalance") return world.rebalance(*id, now);
    return what == "withdraw" ? world.withdraw(*id, now) : world.kill(*id, now);
  }
  if (what == "reclaim") return reclaim(body);
  if (what == "fault") return fault(body);
  if (what == "market") return market(body);
  if (what == "policy") {
    const auto documents = body.value("documents", std::vector<std::string>());
    for (const auto& it : parts_.regions.all())
      if (auto set = it->set_policies(text(body, "who"), documents); !set) return set;
    return {};
  }
  return world::refusal("NotFound", "no such control: " + std::string(what), 404);
}

}  // namespace spotter::emulator
