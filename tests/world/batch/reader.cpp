#include "tests/world/batch/reader.hpp"

#include <algorithm>
#include <cctype>

namespace spotter::world::batch {

const Json& Reader::get(const char* name) const {
  static const Json nothing;
  if (!object_->is_object()) return nothing;
  const auto found = object_->find(name);
  return found == object_->end() ? nothing : *found;
}

std::string Reader::text(const char* name) const {
  const Json& value = get(name);
  if (value.is_null()) return {};
  if (!value.is_string()) refuse(std::string(name) + " must be a string");
  return value.is_string() ? value.get<std::string>() : std::string{};
}

std::string Reader::required(const char* name) const {
  std::string value = text(name);
  if (value.empty()) refuse(std::string(name) + " must not be blank");
  return value;
}

bool Reader::boolean(const char* name) const {
  const Json& value = get(name);
  if (!value.is_null() && !value.is_boolean()) refuse(std::string(name) + " must be a boolean");
  return value.is_boolean() && value.get<bool>();
}

std::optional<int> Reader::integer(const char* name, int least, int most) const {
  const Json& value = get(name);
  if (value.is_null()) return std::nullopt;
  const bool fits = value.is_number_integer() && value.get<std::int64_t>() >= least &&
                    value.get<std::int64_t>() <= most;
  if (!fits) {
    refuse(std::string(name) + " must be an integer between " + std::to_string(least) + " and " +
           std::to_string(most));
    return least;
  }
  return value.get<int>();
}

std::vector<std::string> Reader::texts(const char* name) const {
  std::vector<std::string> result;
  const Json& value = get(name);
  if (!value.is_null() && !value.is_array()) refuse(std::string(name) + " must be a list");
  if (!value.is_array()) return result;
  for (const Json& item : value) {
    if (!item.is_string()) refuse(std::string(name) + " must be a list of strings");
    if (item.is_string()) result.push_back(item.get<std::string>());
  }
  return result;
}

std::vector<Reader> Reader::objects(const char* name) const {
  std::vector<Reader> result;
  const Json& value = get(name);
  if (!value.is_null() && !value.is_array()) refuse(std::string(name) + " must be a list");
  if (!value.is_array()) return result;
  for (const Json& item : value) result.emplace_back(item, *problem_);
  return result;
}

Tags Reader::map(const char* name) const {
  Tags result;
  const Json& value = get(name);
  if (!value.is_null() && !value.is_object()) refuse(std::string(name) + " must be a map");
  if (!value.is_object()) return result;
  for (const auto& [key, item] : value.items()) {
    if (!item.is_string()) refuse(std::string(name) + " must be a map of strings");
    if (item.is_string()) result[key] = item.get<std::string>();
  }
  return result;
}

// https://docs.aws.amazon.com/batch/latest/userguide/using-tags.html#tag-restrictions
Tags Reader::tags(const Tags& before) const {
  constexpr std::size_t most = 50, longest_key = 128, longest_value = 256;
  Tags all = before;
  for (const auto& [key, value] : map("tags")) {
    std::string begin = key.substr(0, 4);
    std::ranges::transform(begin, begin.begin(), [](unsigned char it) { return std::tolower(it); });
    if (begin == "aws:") refuse("Tag keys must not begin with aws:");
    if (key.empty() || key.size() > longest_key || value.size() > longest_value)
      refuse("A tag has a key of 1 to 128 characters and a value of up to 256");
    all[key] = value;
  }
  if (all.size() > most) refuse("A resource has up to 50 tags");
  return all;
}

std::string Reader::identifier(const char* name) const {
  std::string value = required(name);
  const auto allowed = [](unsigned char letter) {
    return std::isalnum(letter) || letter == '-' || letter == '_';
  };
  if (!value.empty() &&
      (value.size() > 128 || !std::isalnum(static_cast<unsigned char>(value[0])) ||
       !std::all_of(value.begin(), value.end(), allowed))) {
    refuse(std::string(name) +
           " should match valid pattern (1 to 128 letters, numbers, hyphens and underscores)");
  }
  return value;
}

std::string Reader::one_of(const char* name, const std::vector<std::string>& values) const {
  std::string value = text(name);
  if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end()) {
    std::string list;
    for (const std::string& it : values) list += (list.empty() ? "" : ", ") + it;
    refuse(std::string(name) + " '" + value + "' is not one of " + list);
  }
  return value;
}

}  // namespace spotter::world::batch
