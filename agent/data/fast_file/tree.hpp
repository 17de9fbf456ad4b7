// The files of a channel as a tree of folders. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::fastfile {

class Tree {
 public:
  using Number = std::uint32_t;  // of a node
  static constexpr Number root = 0;

  struct Node {
    std::string name;  // its last part
    Number parent = root;
    std::optional<std::size_t> file;  // index into the names; none: it is a folder
    std::vector<Number> children;     // of a folder, in the order of their names' bytes
    std::int64_t modified = 0;        // seconds since 1970; of a folder: of the newest below it
  };

  struct File {
    std::string name;  // "a/b.bin": of data::file_name()
    std::int64_t modified = 0;
  };
  // Fails where one name is a file and a folder.
  static Result<Tree> make(const std::vector<File>& files);

  std::size_t size() const { return nodes_.size(); }
  const Node& at(Number number) const { return nodes_[number]; }
  std::optional<Number> find(Number folder, std::string_view name) const;

 private:
  std::vector<Node> nodes_;
};

}  // namespace spotter::fastfile
