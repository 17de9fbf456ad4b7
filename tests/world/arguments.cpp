#include "tests/world/arguments.hpp"

#include <charconv>
#include <climits>

namespace spotter::world {

std::string Arguments::text(const std::string& name, const std::string& otherwise) const {
  const auto found = given_.find(name);
  return found == given_.end() ? otherwise : found->second;
}

Duration Arguments::duration(const std::string& name, Duration otherwise) {
  const auto found = given_.find(name);
  if (found == given_.end()) return otherwise;
  const std::string& text = found->second;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  static const std::map<std::string, int> units = {
      {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
  const auto unit = units.find(end);
  if (error != std::errc{} || unit == units.end() || number < 0) {
    problem_ = name + "=" + text + " is not a duration such as 30s or 250ms";
    return otherwise;
  }
  return Duration{number * unit->second};
}

std::uint64_t Arguments::number(const std::string& name, std::uint64_t otherwise) {
  const auto found = given_.find(name);
  if (found == given_.end()) return otherwise;
  const std::string& text = found->second;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size())
    problem_ = name + "=" + text + " is not a number";
  return number;
}

int Arguments::count(const std::string& name, int otherwise) {
  const std::uint64_t value = number(name, static_cast<std::uint64_t>(otherwise));
  if (value <= INT_MAX) return static_cast<int>(value);
  problem_ = name + "=" + text(name, "") + " is not a number";
  return otherwise;
}

}  // namespace spotter::world
