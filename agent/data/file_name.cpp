#include "agent/data/file_name.hpp"

#include <algorithm>

namespace spotter::data {
namespace {

constexpr std::size_t longest_name = 255;  // of Linux's file systems

}  // namespace

Result<std::string> file_name(std::string_view prefix, std::string_view key) {
  const auto wrong = [&] { return failure(std::string(key) + " cannot be the name of a file"); };
  std::string name(key.substr(std::min(prefix.size(), key.size())));
  if (!prefix.empty() && prefix.back() != '/') {
    if (name.starts_with('/')) {
      name.erase(0, 1);
    } else {
      name.insert(0, prefix.substr(prefix.rfind('/') + 1));
    }
  }
  for (std::string_view rest = name;;) {
    const auto slash = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, slash);
    const bool good = !part.empty() && part.size() <= longest_name && part != "." && part != ".." &&
                      part.find('\0') == part.npos;
    if (!good) return wrong();
    if (slash == rest.size()) return name;
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace spotter::data
