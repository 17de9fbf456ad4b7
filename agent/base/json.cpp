#include "agent/base/json.hpp"

#include <cmath>

#include "agent/base/text.hpp"

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

// Stands in front of a number that nlohmann::json lacks, or would write differently: no text has it
// there, as it is no character.
constexpr std::string_view mark = "\xEF\xB7\x90", escaped_mark = "\\ufdd0";

// The text that stands for a number as Python writes it, if that differs: whole numbers have any
// length there, and an exponent is for 1e16 and beyond. Empty: all else.
std::string marked(std::string_view token) {
  const auto text_of = [](std::string_view number) {
    return '"' + std::string(mark) + std::string(number) + '"';
  };
  if (token == "NaN" || token == "Infinity" || token == "-Infinity") return text_of(token);
  if (!Json::accept(token)) return {};
  if (token.find_first_of(".eE") == token.npos) return token.size() > 18 ? text_of(token) : "";
  const double value = number_of_text<double>(token).value_or(0);
  if (std::abs(value) < 1e15 || std::abs(value) >= 1e16) return {};
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text_of(text.data());
}

// Whether it begins with \uDxxx, whose second digit is among these: half of a surrogate pair.
bool has_half(std::string_view text, std::string_view digits) {
  return text.size() >= 6 && text.starts_with("\\u") && (text[2] == 'd' || text[2] == 'D') &&
         digits.find(text[3]) != digits.npos;
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
    return failure("not JSON: " + json_text(begin));
  }
  return value;
}

std::string from_python(std::string_view text) {
  constexpr std::string_view of_tokens = "+-.0123456789abcdefghijklmnopqrstuvwxyzINE";
  std::string out;
  for (bool inside = false; !text.empty();) {
    std::size_t used = 1;
    std::string instead;
    if (text.front() == '"') {
      inside = !inside;
    } else if (!inside) {
      used = std::max<std::size_t>(1, std::min(text.find_first_not_of(of_tokens), text.size()));
      instead = marked(text.substr(0, used));
    } else if (text.front() == '\\') {
      const bool first = has_half(text, "89abAB"), second = has_half(text, "cdefCDEF");
      const bool pair = first && has_half(text.substr(6), "cdefCDEF");
      if (!pair && (first || second)) instead = "\\ufffd";
      used = std::min<std::size_t>(text.size(), pair ? 12 : first || second ? 6 : 2);
    }
    out += instead.empty() ? text.substr(0, used) : instead;
    text.remove_prefix(used);
  }
  return out;
}

std::optional<std::string> marked_number(std::string_view text) {
  if (!text.starts_with(mark)) return std::nullopt;
  return std::string(text.substr(mark.size()));
}

std::string to_python(const Json& json, bool ascii) {
  std::string text = json.dump(-1, ' ', ascii, Json::error_handler_t::replace);
  const std::string begin = '"' + std::string(ascii ? escaped_mark : mark);
  for (std::size_t at = 0; (at = text.find(begin, at)) != text.npos;) {
    text.erase(at, begin.size());
    at = std::min(text.find('"', at), text.size());
    text.erase(at, 1);
  }
  return text;
}

std::string plain_text(const Json& json, bool ascii) {
  if (!json.is_string()) return to_python(json, ascii);
  const auto& text = json.get_ref<const std::string&>();
  return marked_number(text).value_or(text);
}

Result<Json> parse_foreign_json(std::string_view text) {
  auto strict = parse_json(text);
  if (strict) return strict;
  auto read = parse_json(from_python(text));
  return read ? read : strict;
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

const Json& object_field(const Json& object, const char* name) {
  static const Json none = Json::object();
  const auto field = object.find(name);
  return field == object.end() || !field->is_object() ? none : *field;
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
