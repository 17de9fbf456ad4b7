#include "agent/guard/removal.hpp"

#include <vector>

namespace spotter::guard {
namespace {

constexpr int removals_depth = 64;

bool remove_all_in(const io::SafeDirectory& folder, int depth, std::size_t& left) {
  std::vector<std::string> names;
  const auto listed = folder.each_name([&](const std::string& name) {
    names.push_back(name);
    return names.size() < left;
  });
  if (!listed) return false;
  for (const std::string& name : names) {
    if (left == 0 || depth > removals_depth) return false;
    --left;
    if (folder.remove(name)) continue;
    const auto inner = folder.folder(name);
    if (!inner || !remove_all_in(*inner, depth + 1, left) || !folder.remove_folder(name))
      return false;
  }
  return true;
}

}  // namespace

void remove_any(const io::SafeDirectory& from, const std::string& name, std::size_t& left) {
  if (from.remove(name)) return;
  const auto folder = from.folder(name);
  if (folder && remove_all_in(*folder, 0, left)) (void)from.remove_folder(name);
}

}  // namespace spotter::guard
