#include "agent/report/page/feed.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace spotter::page {
namespace {

using nlohmann::json;

// Those of the curve now, and those that were sent before. The first is always there.
std::set<std::string> columns_of(const json& before, const json& curve) {
  std::set<std::string> names = {"step", "loss", "accuracy", "time"};
  for (const json* each : {&before, &curve})
    for (const auto& [name, column] : each->items())
      if (column.is_array()) names.insert(name);
  return names;
}

std::string event(const char* name, const json& data) {
  return std::string("event: ") + name +
         "\ndata: " + data.dump(-1, ' ', false, json::error_handler_t::replace) + "\n\n";
}

const json none = json::array();
const json& column_of(const json& curve, const std::string& name) {
  const auto found = curve.find(name);
  return found != curve.end() && found->is_array() ? *found : none;
}

// The first index at which a column differs. Curves grow, and are cut, at their end only.
std::size_t same_until(const json& before, const json& curve) {
  std::size_t same = column_of(curve, "step").size();
  for (const std::string& name : columns_of(before, curve)) {
    const json &ours = column_of(before, name), &theirs = column_of(curve, name);
    const auto differs =
        std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end()).first;
    if (differs != ours.end() || ours.size() != theirs.size())
      same = std::min(same, static_cast<std::size_t>(differs - ours.begin()));
  }
  return same;
}

json without_curve(const json& object) {
  if (!object.is_object()) return object;
  json result = json::object();
  for (const auto& [key, value] : object.items())
    if (key != "curve") result[key] = value;
  return result;
}

json without_curves(const json& sweep) {
  json result = sweep;
  const auto all = sweep.is_object() ? sweep.find("experiments") : sweep.end();
  if (all == sweep.end() || !all->is_array()) return result;
  result = json::object();
  for (const auto& [key, value] : sweep.items())
    if (key != "experiments") result[key] = value;
  json& experiments = result["experiments"] = json::array();
  for (const json& each : *all) experiments.push_back(without_curve(each));
  return result;
}

std::string_view without_port(std::string_view host) {
  const auto colon = host.rfind(':');
  if (colon == std::string_view::npos || host.ends_with(']')) return host;
  return host.substr(0, colon);
}

}  // namespace

std::string Feed::points(int experiment, const json& curve) {
  json& before = curves_[experiment];
  if (!before.is_object()) before = json::object();
  const std::size_t from = same_until(before, curve);
  const std::size_t size = column_of(curve, "step").size();
  if (from == size && column_of(before, "step").size() == size) return "";
  json said = {{"experiment", experiment < 0 ? json() : json(experiment)}, {"from", from}};
  for (const std::string& name : columns_of(before, curve)) {
    const json& column = column_of(curve, name);
    json &kept = before[name], &fresh = said[name] = json::array();
    if (!kept.is_array()) kept = json::array();
    if (kept.size() > from)
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(from), kept.end());
    for (std::size_t i = from; i < column.size(); ++i) {
      fresh.push_back(column[i]);
      kept.push_back(column[i]);
    }
  }
  return event("points", said);
}

std::string Feed::next(const json& model, const json& besides) {
  if (!model.is_object()) return "";
  json changed = json::object();
  const auto look = [&](const std::string& key, const json& value) {
    if (key == "now" || key == "curve") return;
    json now = key == "sweep" ? without_curves(value) : value;
    if (sent_.contains(key) && sent_[key] == now) return;
    changed[key] = now;
    sent_[key] = std::move(now);
  };
  for (const auto& [key, value] : model.items())
    if (!besides.contains(key)) look(key, value);
  for (const auto& [key, value] : besides.items()) look(key, value);
  for (const auto& [key, value] : sent_.items())
    if (!model.contains(key) && !besides.contains(key)) look(key, json());
  std::string text;
  if (!changed.empty()) {
    const json& of = besides.contains("now") ? besides : model;
    if (const auto now = of.find("now"); now != of.end()) changed["now"] = *now;
    text = event("model", changed);
  }
  if (const auto curve = model.find("curve"); curve != model.end() && curve->is_object())
    text += points(-1, *curve);
  const auto sweep = model.find("sweep");
  if (sweep == model.end() || !sweep->is_object() || !sweep->contains("experiments")) return text;
  int place = 0;
  for (const json& each : (*sweep)["experiments"]) {
    if (const auto curve = each.find("curve"); curve != each.end() && curve->is_object())
      text += points(place, *curve);
    ++place;
  }
  return text;
}

bool is_local_name(std::string_view host) {
  const std::string_view name = without_port(host);
  if (name.empty() || name.starts_with('[')) return !name.empty();
  const bool address = std::all_of(
      name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
  return address || name.find('.') == std::string_view::npos || name.ends_with(".localhost");
}

bool is_loopback_name(std::string_view host) {
  const std::string_view name = without_port(host);
  return name == "127.0.0.1" || name == "localhost" || name == "[::1]";
}

bool is_same_origin(std::string_view host, std::string_view origin) {
  if (origin.empty()) return true;
  const auto scheme = origin.find("://");
  return scheme != std::string_view::npos && origin.substr(scheme + 3) == host;
}

}  // namespace spotter::page
