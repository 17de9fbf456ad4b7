// Reading fields of a JSON object without exceptions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "agent/base/metrics.hpp"
#include "agent/base/result.hpp"

namespace spotter::wire {

using Json = nlohmann::json;

// The deepest nesting that is parsed. No answer of AWS is deeper, and a recursive parser copes.
inline constexpr int deepest_json = 32;

Result<Json> parse_json(std::string_view text);
// The same, where the reason does not matter: what is no JSON, or too deep, is discarded
// (is_discarded()). The second one keeps the members' order.
Json parsed_json(std::string_view text);
nlohmann::ordered_json parsed_ordered_json(std::string_view text);
// Writes one line, or with an indent several. AWS or a user may send any bytes: those that are no
// UTF-8 become U+FFFD.
template <class AnyJson = Json>
std::string json_text(const AnyJson& json, int indent = -1) {
  return json.dump(indent, ' ', false, AnyJson::error_handler_t::replace);
}

// Makes JSON of what Python writes as JSON: NaN, Infinity, whole numbers of any length, halves of
// surrogate pairs. Numbers that nlohmann::json lacks, or would write differently, become texts
// that to_python() writes as the numbers that they are; the halves become U+FFFD.
std::string from_python(std::string_view text);
// The number that such a text is; none: it is another text.
std::optional<std::string> marked_number(std::string_view text);
std::string to_python(const Json& json, bool ascii);
// A text as it is, all else as to_python() writes it.
std::string plain_text(const Json& json, bool ascii);
// Takes JSON, and otherwise what from_python() makes of the text.
Result<Json> parse_foreign_json(std::string_view text);

Result<Json> parse_json_object(std::string_view text);

// Empty when the field is absent, null or no text.
std::string text_field(const Json& object, const char* name);
// Fails in those cases, and for an empty text.
Result<std::string> required_text(const Json& object, const char* name);
// An empty one when the field is absent, or no object.
const Json& object_field(const Json& object, const char* name);
// Nothing when the field is absent, no whole number, or not within 0 and `most`.
std::optional<std::uint64_t> count_field(const Json& object, const char* name,
                                         std::uint64_t most = UINT64_MAX);
// Nothing when the field is absent, no number, or not finite.
std::optional<double> number_field(const Json& object, const char* name);
// The members that are metrics by name and value, `most_metrics` at most; empty for what is no
// object.
MetricValues metrics_in(const Json& object);
// The same of the object in this field.
MetricValues metrics_field(const Json& object, const char* name);

}  // namespace spotter::wire
