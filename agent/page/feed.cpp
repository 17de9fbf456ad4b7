#include "agent/page/feed.hpp"

#include <algorithm>
#include <cctype>

namespace spotter::page {
namespace {

using nlohmann::json;

constexpr const char* columns[] = {"step", "loss", "accuracy", "time"};

std::string event(const char* name, const json& data) {
  return std::string("event: ") + name +
         "\ndata: " + data.dump(-1, ' ', false, json::error_handler_t::replace) + "\n\n";
}

std::size_t size_of(const json& curve) {
  const auto found = curve.find("step");
  return found != curve.end() && found->is_array() ? found->size() : 0;
}

bool same_point(const json& a, const json& b, std::size_t index) {
  return std::all_of(std::begin(columns), std::end(columns), [&](const char* name) {
    const auto ours = a.find(name), theirs = b.find(name);
    if (ours == a.end() || theirs == b.end()) return ours == a.end() && theirs == b.end();
    return index < ours->size() && index < theirs->size() && (*ours)[index] == (*theirs)[index];
  });
}

// The first that differs. Curves grow at their end and are cut there.
std::size_t same_until(const json& before, const json& curve) {
  std::size_t same = 0;
  const std::size_t most = std::min(size_of(before), size_of(curve));
  while (same < most && same_point(before, curve, same)) ++same;
  return same;
}

json take_curve(json& of) {
  if (!of.is_object() || !of.contains("curve")) return json::object();
  json curve = std::move(of["curve"]);
  of.erase("curve");
  return curve.is_object() ? curve : json::object();
}

std::string_view without_port(std::string_view host) {
  const auto colon = host.rfind(':');
  if (colon == std::string_view::npos || host.ends_with(']')) return host;
  return host.substr(0, colon);
}

}  // namespace

std::string Feed::points(int experiment, const json& curve) {
  const json& before = curves_[experiment];
  const std::size_t from = same_until(before.is_null() ? json::object() : before, curve);
  const std::size_t had = before.is_null() ? 0 : size_of(before);
  if (from == size_of(curve) && from == had) return "";
  json said = {{"experiment", experiment < 0 ? json() : json(experiment)}, {"from", from}};
  for (const char* name : columns) {
    const auto column = curve.find(name);
    if (column == curve.end() || !column->is_array()) continue;
    const auto begin = std::min(from, column->size());
    said[name] =
        json(json::array_t(column->begin() + static_cast<std::ptrdiff_t>(begin), column->end()));
  }
  curves_[experiment] = curve;
  return event("points", said);
}

std::string Feed::next(json model) {
  if (!model.is_object()) return "";
  std::map<int, json> curves = {{-1, take_curve(model)}};
  if (const auto sweep = model.find("sweep"); sweep != model.end() && sweep->is_object())
    if (const auto all = sweep->find("experiments"); all != sweep->end() && all->is_array())
      for (int place = 0; place < static_cast<int>(all->size()); ++place)
        curves[place] = take_curve((*all)[static_cast<std::size_t>(place)]);
  json changed = json::object();
  for (const auto& [key, value] : model.items())
    if (key != "now" && (!sent_.contains(key) || sent_[key] != value)) changed[key] = value;
  for (const auto& [key, value] : sent_.items())
    if (!model.contains(key)) changed[key] = nullptr;
  std::string text;
  if (!changed.empty()) {
    if (model.contains("now")) changed["now"] = model["now"];
    text = event("model", changed);
    sent_ = std::move(model);
  }
  for (const auto& [experiment, curve] : curves) text += points(experiment, curve);
  return text;
}

bool is_local_name(std::string_view host) {
  const std::string_view name = without_port(host);
  if (name.empty() || name.starts_with('[')) return !name.empty();
  const bool address = std::all_of(
      name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
  return address || name.find('.') == std::string_view::npos || name.ends_with(".localhost");
}

bool is_same_origin(std::string_view host, std::string_view origin) {
  if (origin.empty()) return true;
  const auto scheme = origin.find("://");
  return scheme != std::string_view::npos && origin.substr(scheme + 3) == host;
}

}  // namespace spotter::page
