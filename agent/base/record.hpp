// Our own records as JSON objects: each field of a struct under its key, in both directions.
//
//   struct Claim {
//     static constexpr std::string_view keys = "state! token! holder span_ms? -";
//     State state = State::Held;      // the fields, in the order of their keys
//     ...
//
// A key with `!` must be there. Any other may be absent, or null: its field then has the struct's
// default;
// with `?` it is also left out of the JSON while the field has that default. The key `-`: the
// field is none of the record's. One rule for all that is read: a value of another type, a number
// below its field's range or above it, and a text that does not fit are mistakes, and so is a word
// that an enumeration does not have (words_of()), if its key must be there; else a later version
// has written that word, and it counts as absent.
#pragma once

#include <algorithm>
#include <boost/pfr/core.hpp>
#include <chrono>
#include <cmath>
#include <concepts>
#include <limits>
#include <set>

#include "agent/base/json.hpp"
#include "agent/base/version.hpp"

namespace spotter::wire {

// The mistake, in words behind the value's name: " is not a text", ": \"port\" is not ...". Empty:
// it was read.
using Wrong = std::string;

inline constexpr std::uint64_t longest_wait = 365ULL * 24 * 3600 * 1000;  // milliseconds

inline std::string quoted_key(std::string_view key) { return "\"" + std::string(key) + "\""; }

struct Key {
  std::string_view name;  // "-": of no member
  bool needed = false, left_out = false;
};

constexpr std::size_t count_of(std::string_view keys) {
  return static_cast<std::size_t>(std::ranges::count(keys, ' ')) + 1;
}

// The keys, one by one.
constexpr Key take_key(std::string_view& keys) {
  const auto end = std::min(keys.find(' '), keys.size());
  Key key{keys.substr(0, end), keys[end - 1] == '!', keys[end - 1] == '?'};
  keys.remove_prefix(std::min(end + 1, keys.size()));
  if (key.needed || key.left_out) key.name.remove_suffix(1);
  return key;
}

inline Wrong read_count(const Json& json, std::uint64_t most, std::uint64_t& count) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > most)
    return " is not a whole number from 0 to " + std::to_string(most);
  count = json.get<std::uint64_t>();
  return {};
}

// The members of the object that are no keys of the record's, nor among `also`.
template <class Record>
Json beside_record(const Json& json, const std::set<std::string_view>& also) {
  Json others = Json::object();
  std::set<std::string_view> known = also;
  for (std::string_view left = Record::keys; !left.empty();) known.insert(take_key(left).name);
  for (const auto& [name, value] : json.items())
    if (!known.contains(name)) others[name] = value;
  return others;
}

template <class Record>
Wrong unknown_key(const Json& json, const std::set<std::string_view>& also) {
  const Json others = beside_record<Record>(json, also);
  return others.empty() ? Wrong() : " does not know " + quoted_key(others.begin().key());
}

template <class Value>
Wrong read_value(const Json& json, Value& value);
template <class Value>
Json shown_value(const Value& value);

// Says what is wrong with the object, or in it.
template <class Record>
Wrong read_record(const Json& json, Record& record) {
  static_assert(boost::pfr::tuple_size_v<Record> == count_of(Record::keys), "a key for each field");
  if (!json.is_object()) return " is not an object";
  Wrong wrong;
  std::string_view left = Record::keys;
  boost::pfr::for_each_field(record, [&](auto& field) {
    const Key key = take_key(left);
    const auto at = json.find(key.name);
    const bool absent = at == json.end() || at->is_null();
    if (absent && key.needed && wrong.empty()) wrong = " has no " + quoted_key(key.name);
    if (absent || key.name == "-" || !wrong.empty()) return;
    const Wrong its = read_value(*at, field);
    const bool later =
        std::is_enum_v<std::remove_reference_t<decltype(field)>> && at->is_string() && !key.needed;
    if (!its.empty() && !later) wrong = ": " + quoted_key(key.name) + its;
  });
  if constexpr (requires { Record::is_closed; })
    if (wrong.empty()) wrong = unknown_key<Record>(json, {});
  return wrong;
}

template <class Record>
const Json& defaults_of();

// `every`: also what is left out where it has its default.
template <class Record>
Json object_of(const Record& record, bool every = false) {
  Json object = Json::object();
  std::string_view left = Record::keys;
  boost::pfr::for_each_field(record, [&](const auto& field) {
    const Key key = take_key(left);
    if (key.name == "-") return;
    Json value = shown_value(field);
    const bool left_out =
        !every && key.left_out && defaults_of<Record>().value(key.name, Json()) == value;
    if (!value.is_null() && !left_out) object[std::string(key.name)] = std::move(value);
  });
  return object;
}

template <class Record>
const Json& defaults_of() {
  static const Json defaults = object_of(Record{}, true);
  return defaults;
}

// A text of at most so many bytes, as ShortText and identifiers have it.
template <class Value>
concept HasLimit = requires(const Value& value) {
  Value::fits(value.view());
};

template <class Value>
Wrong read_value(const Json& json, Value& value) {
  if constexpr (std::same_as<Value, bool>) {
    if (!json.is_boolean()) return " is neither true nor false";
    value = json.get<bool>();
  } else if constexpr (std::same_as<Value, std::string>) {
    if (!json.is_string()) return " is not a text";
    value = json.get<std::string>();
  } else if constexpr (HasLimit<Value>) {
    if (!json.is_string()) return " is not a text";
    if (!Value::fits(json.get_ref<const std::string&>())) return " is too long";
    value = Value(json.get_ref<const std::string&>());
  } else if constexpr (std::unsigned_integral<Value>) {
    std::uint64_t count = 0;
    if (Wrong wrong = read_count(json, std::numeric_limits<Value>::max(), count); !wrong.empty())
      return wrong;
    value = static_cast<Value>(count);
  } else if constexpr (std::signed_integral<Value>) {
    using Limits = std::numeric_limits<Value>;
    // JSON's own numbers above 0 are unsigned ones.
    if (!json.is_number_integer() ||
        !(json.is_number_unsigned() ? std::in_range<Value>(json.get<std::uint64_t>())
                                    : std::in_range<Value>(json.get<std::int64_t>())))
      return " is not a whole number from " + std::to_string(Limits::min()) + " to " +
             std::to_string(Limits::max());
    value = json.get<Value>();
  } else if constexpr (std::same_as<Value, double>) {
    if (!json.is_number() || !std::isfinite(json.get<double>())) return " is not a number";
    value = json.get<double>();
  } else if constexpr (std::same_as<Value, std::chrono::milliseconds>) {
    std::uint64_t count = 0;
    if (Wrong wrong = read_count(json, longest_wait, count); !wrong.empty()) return wrong;
    value = std::chrono::milliseconds(count);
  } else if constexpr (std::is_enum_v<Value>) {
    constexpr auto words = words_of(Value());
    const auto at = std::ranges::find(words, json.is_string() ? json.get<std::string>() : "?");
    if (at == words.end()) return " is none of its words";
    value = static_cast<Value>(at - words.begin());
  } else if constexpr (requires { value.has_value(); }) {
    return read_value(json, value.emplace());
  } else if constexpr (requires { typename Value::mapped_type; }) {
    if (!json.is_object()) return " is not an object";
    value.clear();
    for (const auto& [name, each] : json.items())
      if (Wrong wrong = read_value(each, value[name]); !wrong.empty())
        return ": " + quoted_key(name) + wrong;
  } else if constexpr (requires { value.emplace_back(); }) {
    if (!json.is_array()) return " is not a list";
    value.clear();
    for (const Json& each : json)
      if (Wrong wrong = read_value(each, value.emplace_back()); !wrong.empty())
        return "[" + std::to_string(value.size() - 1) + "]" + wrong;
  } else if constexpr (requires { value.insert(value.begin(), *value.begin()); }) {
    std::vector<typename Value::value_type> list;
    if (Wrong wrong = read_value(json, list); !wrong.empty()) return wrong;
    value = Value(list.begin(), list.end());
  } else if constexpr (requires { Value::keys; }) {
    return read_record(json, value);
  } else {
    return read_own(json, value);  // a type that has its own way
  }
  return {};
}

template <class Value>
Json shown_value(const Value& value) {
  if constexpr (HasLimit<Value>) {
    return value.view();
  } else if constexpr (std::same_as<Value, std::chrono::milliseconds>) {
    return value.count();
  } else if constexpr (std::is_enum_v<Value>) {
    return words_of(Value())[static_cast<std::size_t>(value)];
  } else if constexpr (requires { value.has_value(); }) {
    return value ? shown_value(*value) : Json();
  } else if constexpr (requires { Value::keys; }) {
    return object_of(value);
  } else if constexpr (requires(Value list) { list.emplace_back(); }) {
    Json list = Json::array();
    for (const auto& each : value) list.push_back(shown_value(each));
    return list;
  } else if constexpr (std::constructible_from<Json, const Value&>) {
    return value;
  } else {
    return shown_own(value);
  }
}

// --- a whole document, with its version

template <class Record>
std::string document_of(const Record& record, std::uint64_t version) {
  Json object = object_of(record);
  object["version"] = version;
  return json_text(object) + "\n";
}

// Fails for what is no such record, and for a later version (absent: 1): `what` is it, "the claim".
template <class Record>
Result<Record> parse_document(std::string_view text, std::uint64_t version, std::string_view what) {
  const auto json = TRY(parse_json_object(text));
  if (auto later = newer(json, "version", version, what)) return tl::unexpected(std::move(*later));
  Record record;
  if (const Wrong wrong = read_record(json, record); !wrong.empty())
    return failure(std::string(what) + wrong);
  return record;
}

}  // namespace spotter::wire
