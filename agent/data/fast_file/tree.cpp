#include "agent/data/fast_file/tree.hpp"

#include <algorithm>
#include <unordered_map>

namespace spotter::fastfile {

Result<Tree> Tree::make(const std::vector<File>& files) {
  Tree tree;
  auto& nodes = tree.nodes_;
  nodes.emplace_back();
  std::unordered_map<std::string, Number> known{{"", root}};  // by path
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string& path = files[i].name;
    Number parent = root;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const bool last = end == path.size();
      const auto [at, added] =
          known.emplace(path.substr(0, end), static_cast<Number>(nodes.size()));
      if (added) {
        nodes.push_back({.name = path.substr(begin, end - begin), .parent = parent});
        nodes[parent].children.push_back(at->second);
        if (last) nodes.back().file = i;
      } else if (last || nodes[at->second].file) {
        return failure("the name " + at->first + " is that of a file and of another, or a folder");
      }
      parent = at->second;
      nodes[parent].modified = std::max(nodes[parent].modified, files[i].modified);
      begin = end + 1;
    }
    nodes[root].modified = std::max(nodes[root].modified, files[i].modified);
  }
  for (Node& node : nodes)
    std::ranges::sort(node.children, {},
                      [&](Number child) -> const std::string& { return nodes[child].name; });
  return tree;
}

std::optional<Tree::Number> Tree::find(Number folder, std::string_view name) const {
  const auto& children = nodes_[folder].children;
  const auto name_of = [this](Number child) -> std::string_view { return nodes_[child].name; };
  const auto found = std::ranges::lower_bound(children, name, {}, name_of);
  if (found == children.end() || name_of(*found) != name) return std::nullopt;
  return *found;
}

}  // namespace spotter::fastfile
