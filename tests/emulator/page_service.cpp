#include "tests/emulator/page_service.hpp"

#include "agent/report/page/feed.hpp"
#include "agent/report/page/page.hpp"
#include "tests/emulator/form.hpp"
#include "tests/emulator/world_view.hpp"

namespace spotter::emulator {
namespace {

using nlohmann::json;

// A page that has gone is found out by writing to it.
constexpr int looks_a_heartbeat = 40;

double seconds_of(world::WallTime time) {
  return static_cast<double>(time.time_since_epoch().count()) / 1000;
}

std::string job_of(const HttpRequest& request) {
  for (const auto& [name, value] : parse_form(request.query(), Plus::IsSpace))
    if (name == "job") return value;
  return "";
}

}  // namespace

std::optional<HttpResponse> PageService::answer(const HttpRequest& request) {
  if (request.method != "GET") return std::nullopt;
  HttpResponse response;
  if (request.path() == "/_spotter/") {
    response = {200, page::html(), "text/html; charset=utf-8"};
  } else if (request.path() == "/_spotter/model") {
    const Shown now = shown(job_of(request));
    json model = *now.model;
    model.update(now.besides);
    response = {200, model.dump(-1, ' ', false, json::error_handler_t::replace) + "\n",
                "application/json"};
  } else if (request.path() == "/_spotter/events") {
    response = events(job_of(request));
  } else {
    return std::nullopt;
  }
  response.headers = {{"Cache-Control", "no-store"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"X-Frame-Options", "DENY"}};
  return response;
}

HttpResponse PageService::events(const std::string& job) {
  HttpResponse response{200, "", "text/event-stream"};
  const auto feed = std::make_shared<page::Feed>();
  const auto silent = std::make_shared<int>(0);
  response.more = [this, job, feed, silent] {
    const Shown now = shown(job);
    std::string text = feed->next(*now.model, now.besides);
    if (text.empty() && ++*silent >= looks_a_heartbeat) text = page::heartbeat;
    if (!text.empty()) *silent = 0;
    return text;
  };
  return response;
}

PageService::Shown PageService::shown(const std::string& job) {
  const auto state = json::parse(world_.state_json(now_()), nullptr, false);
  const double origin = seconds_of(world_.wall(Time{}));
  const double now = state["now"].get<double>() + origin;
  Shown shown;
  json names = json::array();
  std::string key = job;
  for (const auto& each : published_.jobs(now)) {
    names.push_back({{"key", each.key()}, {"name", each.name}});
    if (key.empty()) key = each.key();
  }
  if (!key.empty()) shown.model = published_.model(key, now, prices(state));
  if (!shown.model) shown.model = std::make_shared<const json>(world_model(state, origin));
  shown.besides = {{"now", now},
                   {"world", world_view(state, origin, *shown.model)},
                   {"jobs", names},
                   {"controls", true}};
  return shown;
}

// The price list's rule: on demand costs three times as much (parameters.cpp).
report::Prices PageService::prices(const json& state) const {
  report::Prices prices;
  for (const json& each : state["instances"]) {
    const InstanceType type(each.value("type", ""));
    const Zone zone(each.value("zone", ""));
    double& on_demand = prices.on_demand[type.str()];
    on_demand = std::max(on_demand, 3 * world::usual_price(type, zone));
    for (const auto& it : world_.prices(type, zone))
      prices.spot.push_back({zone, type, "Linux/UNIX", it.dollars,
                             std::chrono::floor<std::chrono::seconds>(it.since)});
  }
  return prices;
}

}  // namespace spotter::emulator
