#include "tests/world/s3/keys.hpp"

#include <algorithm>

namespace spotter::world::s3 {

std::optional<std::vector<std::string>> path_of(std::string_view key) {
  constexpr std::size_t longest_name = 255;
  if (key.find('\0') != std::string_view::npos) return std::nullopt;
  std::vector<std::string> names;
  for (;;) {
    const auto slash = key.find('/');
    const auto name = key.substr(0, slash);
    if (name.empty() || name == "." || name == ".." || name.size() > longest_name)
      return std::nullopt;
    names.emplace_back(name);
    if (slash == std::string_view::npos) return names;
    key.remove_prefix(slash + 1);
  }
}

}  // namespace spotter::world::s3
