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
  if (request.method == "GET" && what == "state") return state();
  if (request.method == "GET" && what == "faults")
    return answer_with(200, json(world::World::fault_names()));
  if (request.method != "POST") return error(404, "no such control: " + std::string(what));
  const auto body = json::parse(request.body.empty() ? "{}" : request.body, nullptr, false);
  if (!body.is_object()) return error(400, "the body is not a JSON object");
  return post(what, body);
}

HttpResponse Control::state() {
  auto document = json::parse(parts_.world.state_json(parts_.now()), nullptr, false);
  document["mode"] = parts_.mode;
  for (auto& instance : document["instances"]) {
    const InstanceId id(text(instance, "id"));
    if (const auto endpoint = parts_.machines.metadata_endpoint(id); !endpoint.empty())
      instance["metadata"] = endpoint;
    if (const auto init = parts_.machines.init_of(id)) instance["pid"] = *init;
  }
  return answer_with(200, document);
}

HttpResponse Control::post(std::string_view what, const json& body) {
  if (what == "instance") return add_instance(body);
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
  const Zone zone(text(body, "zone"));
  const InstanceType type(text(body, "type", "p3.2xlarge"));
  const auto added = parts_.world.add_instance(zone, type, parts_.now());
  if (!added) return error(400, added.error().message);
  parts_.settle();
  return answer_with(
      200, {{"instance", added->str()}, {"metadata", parts_.machines.metadata_endpoint(*added)}});
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
  auto lead = parts_.world.settings().interruption_lead;
  if (const auto given = body.find("in_ms"); given != body.end() && given->is_number_integer())
    lead = Duration{given->get<Duration::rep>()};
  return parts_.world.interrupt(id, action->second, lead, parts_.now());
}

world::Expected<void> Control::change(std::string_view what, const json& body) {
  auto& world = parts_.world;
  const Time now = parts_.now();
  const InstanceId id(text(body, "instance"));
  if (what == "interrupt") return interrupt(id, body);
  if (what == "rebalance") return world.rebalance(id, now);
  if (what == "withdraw") return world.withdraw(id, now);
  if (what == "kill") return world.kill(id, now);
  if (what == "fault") {
    std::map<std::string, std::string> arguments;
    if (const auto given = body.find("arguments"); given != body.end() && given->is_object())
      for (const auto& [name, value] : given->items())
        arguments[name] = value.is_string() ? value.get<std::string>() : value.dump();
    return world.fault(text(body, "name"), arguments, now);
  }
  return world::refusal("NotFound", "no such control: " + std::string(what), 404);
}

}  // namespace spotter::emulator
