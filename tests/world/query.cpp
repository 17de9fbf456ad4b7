#include "tests/world/query.hpp"

#include <openssl/evp.h>

#include <charconv>
#include <set>

namespace spotter::world {

void Query::refuse(const std::string& code, const std::string& message) const {
  if (!error_) error_ = ApiError{code, message};
}

std::string Query::text(const std::string& name, const std::string& otherwise) const {
  const auto found = parameters_.find(name);
  if (found == parameters_.end()) return otherwise;
  read_.insert(name);
  return found->second;
}

std::vector<std::string> Query::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : parameters_)
    if (!read_.contains(name)) names.push_back(name);
  return names;
}

std::string Query::required(const std::string& name) const {
  const std::string value = text(name);
  if (value.empty()) refuse("MissingParameter", "The request must contain the parameter " + name);
  return value;
}

std::optional<int> Query::integer(const std::string& name) const {
  if (!has(name)) return std::nullopt;
  const std::string value = text(name);
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < 0) {
    refuse("InvalidParameterValue", "Value (" + value + ") for parameter " + name + " is invalid.");
  }
  return number;
}

double Query::decimal(const std::string& name, double otherwise) const {
  if (!has(name)) return otherwise;
  const double number = std::atof(text(name).c_str());
  if (number <= 0) {
    refuse("InvalidParameterValue",
           "Value (" + text(name) + ") for parameter " + name + " is invalid.");
  }
  return number;
}

bool Query::boolean(const std::string& name) const {
  const std::string value = text(name, "false");
  if (value != "true" && value != "false" && value != "True" && value != "False") {
    refuse("InvalidParameterValue", "Value (" + value + ") for parameter " + name + " is invalid.");
  }
  return value == "true" || value == "True";
}

// "User data must be base64-encoded ... limited to 16 KB, in raw form" (user-data.html)
std::string Query::base64(const std::string& name) const {
  std::string encoded = text(name);
  std::erase_if(encoded, [](unsigned char letter) { return std::isspace(letter); });
  std::string decoded(encoded.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                                   reinterpret_cast<const unsigned char*>(encoded.data()),
                                   static_cast<int>(encoded.size()));
  if (size < 0) {
    refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data");
    return {};
  }
  const auto padding = std::count(encoded.end() - std::min<std::ptrdiff_t>(2, std::ssize(encoded)),
                                  encoded.end(), '=');
  decoded.resize(static_cast<std::size_t>(size - padding));
  if (decoded.size() > 16384) {
    refuse("InvalidParameterValue", "User data is limited to 16384 bytes");
  }
  return decoded;
}

std::vector<std::string> Query::list(const std::string& name) const {
  std::vector<std::string> values;
  for (int i = 1; has(name + '.' + std::to_string(i)); ++i) {
    values.push_back(text(name + '.' + std::to_string(i)));
  }
  return values;
}

std::vector<std::string> Query::members(const std::string& name) const {
  std::vector<std::string> prefixes;
  for (int i = 1;; ++i) {
    const std::string prefix = name + '.' + std::to_string(i) + '.';
    const auto found = parameters_.lower_bound(prefix);
    if (found == parameters_.end() || found->first.rfind(prefix, 0) != 0) return prefixes;
    prefixes.push_back(prefix);
  }
}

Tags Query::tags(const std::string& name) const {
  Tags result;
  for (const std::string& member : members(name)) {
    result[required(member + "Key")] = text(member + "Value");
  }
  return result;
}

Tags Query::tags_for(const std::string& resource, const std::string& name) const {
  Tags result;
  for (const std::string& member : members(name)) {
    if (text(member + "ResourceType") == resource) result.merge(tags(member + "Tag"));
  }
  return result;
}

std::vector<Filter> Query::filters() const {
  std::vector<Filter> result;
  for (const std::string& member : members("Filter")) {
    result.push_back({required(member + "Name"), list(member + "Value")});
  }
  return result;
}

Query::Parameters Query::below(const std::string& prefix) const {
  Parameters result;
  for (auto it = parameters_.lower_bound(prefix);
       it != parameters_.end() && it->first.rfind(prefix, 0) == 0; ++it) {
    result[it->first.substr(prefix.size())] = it->second;
  }
  return result;
}

// "To search for a literal * or ?, use a backslash as an escape character" (Using_Filtering.html)
bool matches(const std::string& pattern, const std::string& text) {
  std::size_t p = 0, t = 0, star = std::string::npos, mark = 0;
  while (t < text.size()) {
    const bool escaped = p + 1 < pattern.size() && pattern[p] == '\\';
    if (escaped && pattern[p + 1] == text[t]) {
      p += 2, ++t;
    } else if (!escaped && p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (!escaped && p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Expected<void> check_filters(const std::vector<Filter>& filters,
                             const std::vector<std::string>& known) {
  for (const Filter& filter : filters) {
    const std::string& name = filter.name;
    const bool is_tag = name.rfind("tag:", 0) == 0 || name == "tag-key" || name == "tag-value";
    if (!is_tag && std::find(known.begin(), known.end(), name) == known.end()) {
      return refusal("InvalidParameterValue", "The filter '" + name + "' is invalid");
    }
    if (filter.values.empty()) {
      return refusal("InvalidParameterValue", "The filter '" + name + "' has no values");
    }
  }
  return {};
}

bool passes(const std::vector<Filter>& filters, const Facts& facts, const Tags& tags) {
  return std::all_of(filters.begin(), filters.end(), [&](const Filter& filter) {
    const auto one_of = [&](const std::string& text) {
      return std::any_of(filter.values.begin(), filter.values.end(),
                         [&](const std::string& pattern) { return matches(pattern, text); });
    };
    if (filter.name.rfind("tag:", 0) == 0) {
      const auto tag = tags.find(filter.name.substr(4));
      return tag != tags.end() && one_of(tag->second);
    }
    if (filter.name == "tag-key" || filter.name == "tag-value") {
      return std::any_of(tags.begin(), tags.end(), [&](const auto& tag) {
        return one_of(filter.name == "tag-key" ? tag.first : tag.second);
      });
    }
    const auto [first, last] = facts.equal_range(filter.name);
    return std::any_of(first, last, [&](const auto& fact) { return one_of(fact.second); });
  });
}

}  // namespace spotter::world
