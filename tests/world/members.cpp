#include "tests/world/members.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace spotter::world {
namespace {

std::string joined(const std::vector<std::string>& parts, const std::string& last) {
  std::string path;
  for (const std::string& it : parts) path += it + '.';
  return path + last;
}

std::set<std::string> alternatives(std::string_view text) {
  std::set<std::string> found;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('|', at), text.size());
    found.emplace(text.substr(at, end - at));
    at = end + 1;
  }
  return found;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Lists are as their items.
std::optional<std::string> refuse_member(const Members& honoured, const nlohmann::json& value,
                                         const std::string& path) {
  if (value.is_object() || value.is_array()) {
    for (const auto& [name, below] : value.items()) {
      const std::string inner = value.is_array() ? path
                                : path.empty()   ? name
                                                 : std::string(path).append(".").append(name);
      if (auto refused = refuse_member(honoured, below, inner)) return refused;
    }
    return std::nullopt;
  }
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  // A structure's member that is no structure is refused by whoever reads it.
  if (value.is_null() || honoured.honours(path, text) || honoured.is_above(path))
    return std::nullopt;
  return not_honoured(path, text);
}

}  // namespace

Members::Members(const std::string& honoured) {
  std::vector<std::string> above;
  std::string word;
  const auto end_word = [&] {
    if (word.empty()) return;
    const std::size_t equals = word.find('=');
    auto& values = all_[joined(above, word.substr(0, equals))];
    if (equals != word.npos) values = alternatives(std::string_view(word).substr(equals + 1));
    word.clear();
  };
  for (const char c : honoured) {
    if (c == '{') {
      above_.insert(joined(above, word));
      above.push_back(std::exchange(word, {}));
    } else if (c == ' ' || c == '}') {
      end_word();
      if (c == '}') above.pop_back();
    } else {
      word += c;
    }
  }
  end_word();
}

// An empty list or structure is sent as an empty value.
bool Members::honours(const std::string& path, const std::string& value) const {
  if (above_.contains(path)) return value.empty();
  if (const auto found = all_.find(path); found != all_.end())
    return found->second.empty() || found->second.contains(value) ||
           found->second.contains(lower(value));
  for (std::size_t dot = path.rfind('.'); dot != path.npos && dot > 0;
       dot = path.rfind('.', dot - 1))
    if (all_.contains(path.substr(0, dot) + ".*")) return true;
  return false;
}

std::string not_honoured(const std::string& path, const std::string& value) {
  constexpr std::size_t enough = 40;
  return "The emulator does not honour " + path +
         (value.empty() ? "" : "=" + value.substr(0, enough)) +
         " here: leave it out (`spotter-emulator members` lists what it honours).";
}

std::optional<std::string> refuse_members(const Members& honoured, const nlohmann::json& request) {
  return refuse_member(honoured, request, "");
}

// "Tags.member.1.Key" is Tags.Key.
std::optional<std::string> refuse_members(const Members& honoured,
                                          const std::map<std::string, std::string>& parameters) {
  for (const auto& [name, value] : parameters) {
    if (name == "Action" || name == "Version") continue;
    std::string path = without_numbers(name);
    for (auto at = path.find(".member"); at != path.npos; at = path.find(".member"))
      path.erase(at, std::string_view(".member").size());
    if (!honoured.honours(path, value)) return not_honoured(path, value);
  }
  return std::nullopt;
}

std::string without_numbers(std::string_view name) {
  std::string path;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part.empty() || !std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c); }))
      path += (path.empty() ? "" : ".") + std::string(part);
    at = end + 1;
  }
  return path;
}

}  // namespace spotter::world
