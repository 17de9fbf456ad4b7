#include "tests/emulator/world_view.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

namespace spotter::emulator {
namespace {

using nlohmann::json;

constexpr std::size_t most_events = 300;

json since(const json& time, double origin) {
  return time.is_number() ? json(time.get<double>() + origin) : json();
}

// Those whose training goes on, as their job says.
std::set<std::string> trainers(const json& model) {
  std::set<std::string> found;
  if (!model.is_object() || !model.contains("instances")) return found;
  for (const json& each : model["instances"]) {
    if (!each["ended"].is_null() || each["phases"].empty()) continue;
    if (each["phases"].back()["phase"] == "training") found.insert(each.value("id", ""));
  }
  return found;
}

const char* end_of(const json& instance) {
  if (instance["died"].is_null()) return "running";
  const std::string reason = instance.value("reason", "");
  return reason == "Server.SpotInstanceTermination" ? "interrupted" : "left";
}

json interruption(const json& event, double at) {
  const bool lost = event["kind"] == "instance-killed";
  json made = {{"instance", event["subject"]},
               {"kind", lost ? "lost" : "terminate"},
               {"notice", at},
               {"deadline", nullptr},
               {"resumed", nullptr}};
  const double lead = std::strtod(event.value("detail", "").c_str(), nullptr) / 1000;
  if (!lost) made["deadline"] = at + lead;
  return made;
}

// "us-west-2b from snap-1 at 300 MiB/s"
json volume_change(const json& event, double at) {
  const std::string kind = event["kind"], detail = event.value("detail", "");
  json made = {{"time", at}, {"volume", event["subject"]}, {"snapshot", ""}, {"zone", ""}};
  if (kind == "volume-created") {
    const auto from = detail.find(" from ");
    made["zone"] = detail.substr(0, detail.find(' '));
    made["change"] = from == std::string::npos ? "created" : "copy";
    if (from != std::string::npos)
      made["snapshot"] = detail.substr(from + 6, detail.find(' ', from + 6) - from - 6);
  } else if (kind == "snapshot-started") {
    made["change"] = "snapshot";
    made["snapshot"] = event["subject"];
    made["volume"] = detail;
  } else if (kind == "volume-attached" || kind == "volume-deleted") {
    made["change"] = kind.substr(7);
  } else {
    return nullptr;
  }
  return made;
}

}  // namespace

json world_view(const json& state, double origin, const json& model) {
  json view = {{"instances", json::array()},
               {"volumes", json::array()},
               {"snapshots", json::array()},
               {"zones", state.value("zones", json::array())}};
  const auto training = trainers(model);
  for (const json& each : state["instances"])
    view["instances"].push_back({{"id", each["id"]},
                                 {"zone", each["zone"]},
                                 {"type", each["type"]},
                                 {"state", each["state"]},
                                 {"training", training.contains(each.value("id", ""))},
                                 {"began", since(each["launched"], origin)},
                                 {"ended", since(each["died"], origin)},
                                 {"notice", since(each["notice"], origin)},
                                 {"end", end_of(each)}});
  for (const json& each : state["volumes"])
    view["volumes"].push_back(
        {{"id", each["id"]},
         {"zone", each["zone"]},
         {"state", each["state"]},
         {"gibibytes", each["gibibytes"]},
         {"snapshot", each["snapshot"]},
         {"began", since(each["created"], origin)},
         {"instance", each["attachment"].is_null() ? json() : each["attachment"]["instance"]}});
  for (const json& each : state["snapshots"]) {
    const double began = each["started"], ends = each["ends"], now = state["now"];
    const double part = ends > began ? (now - began) / (ends - began) : 1;
    view["snapshots"].push_back({{"id", each["id"]},
                                 {"volume", each["volume"]},
                                 {"began", since(each["started"], origin)},
                                 {"state", each["state"]},
                                 {"progress", static_cast<int>(100 * std::clamp(part, 0.0, 1.0))}});
  }
  return view;
}

json world_model(const json& state, double origin) {
  json model = {{"version", 1},
                {"job", nullptr},
                {"says",
                 "The world alone: no job publishes its history into this emulator's S3 "
                 "(publish: in job.yaml)."},
                {"now", state["now"].get<double>() + origin},
                {"from", nullptr},
                {"to", nullptr},
                {"interruptions", json::array()},
                {"volumes", json::array()},
                {"journal", json::array()}};
  std::map<std::string, json> zones;
  for (const json& each : state["instances"]) zones[each.value("id", "")] = each["zone"];
  for (const json& event : state["events"]) {
    const double at = event["at"].get<double>() + origin;
    const std::string kind = event["kind"];
    if (kind == "interruption-notice" || kind == "instance-killed") {
      model["interruptions"].push_back(interruption(event, at));
      model["interruptions"].back()["zone"] = zones[event.value("subject", "")];
    }
    if (json change = volume_change(event, at); !change.is_null()) {
      auto& zone = zones[change.value("volume", "")];
      if (change["zone"] == "" && !zone.is_null()) change["zone"] = zone;
      zone = change["zone"];
      model["volumes"].push_back(std::move(change));
    }
    if (kind != "tagged")
      model["journal"].push_back(
          {{"time", at},
           {"instance", ""},
           {"level", ""},
           {"event", kind},
           {"words", event.value("subject", "") + " " + event.value("detail", "")}});
  }
  json& journal = model["journal"];
  if (journal.size() > most_events)
    journal.erase(journal.begin(), journal.end() - static_cast<std::ptrdiff_t>(most_events));
  return model;
}

}  // namespace spotter::emulator
