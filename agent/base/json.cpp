#include "agent/base/json.hpp"

#include <cmath>

namespace spotter::wire {

namespace {

template <typename Any>
Any parsed(std::string_view text, bool& too_deep) {
  const typename Any::parser_callback_t limit = [&](int depth, typename Any::parse_event_t, Any&) {
    too_deep = too_deep || depth > deepest_json;
    return !too_deep;
  };
  Any value = Any::parse(text, limit, false);
  return too_deep ? Any(Any::value_t::discarded) : value;
}

}  // namespace

Json parsed_json(std::string_view text) {
  bool too_deep = false;
  return parsed<Json>(text, too_deep);
}

nlohmann::ordered_json parsed_ordered_json(std::string_view text) {
  bool too_deep = false;
  return parsed<nlohmann::ordered_json>(text, too_deep);
}

Result<Json> parse_json(std::string_view text) {
  bool too_deep = false;
  Json value = parsed<Json>(text, too_deep);
  if (too_deep) return failure("JSON nested too deeply");
  if (value.is_discarded()) {
    // The text may hold anything, and the message is printed as one line.
    const Json begin = std::string(text.substr(0, 64));
    return failure("not JSON: " + begin.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return value;
}

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Json> parse_json_object(std::string_view text) {
  auto value = parse_json(text);
  if (value && !value->is_object()) return failure("not a JSON object");
  return value;
}

std::string text_field(const Json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_string()) return {};
  return field->get<std::string>();
}

std::optional<std::uint64_t> count_field(const Json& object, const char* name, std::uint64_t most) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_number_unsigned()) return std::nullopt;
  const auto value = field->get<std::uint64_t>();
  return value <= most ? std::optional(value) : std::nullopt;
}

std::optional<double> number_field(const Json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_number()) return std::nullopt;
  const auto value = field->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

MetricValues metrics_in(const Json& object) {
  MetricValues metrics;
  if (!object.is_object()) return metrics;
  for (const auto& [name, member] : object.items()) {
    if (!member.is_number() || !is_metric_name(name) || metrics.size() == most_metrics) continue;
    if (const auto value = member.get<double>(); std::isfinite(value)) metrics.emplace(name, value);
  }
  return metrics;
}

MetricValues metrics_field(const Json& object, const char* name) {
  const auto field = object.find(name);
  return field == object.end() ? MetricValues() : metrics_in(*field);
}

Result<std::string> required_text(const Json& object, const char* name) {
  std::string text = text_field(object, name);
  if (text.empty()) return failure("the JSON object has no text \"" + std::string(name) + "\"");
  return text;
}

}  // namespace spotter::wire
