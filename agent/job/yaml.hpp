// Parses YAML into a plain tree with positions. Stricter than YAML: one document, no aliases (a few
// lines of them can expand to gigabytes), UTF-8 text only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/job/job.hpp"

namespace spotter::config {

struct Node {
  enum class Kind : std::uint8_t { Null, Text, List, Map };
  Kind kind = Kind::Null;
  int line = 1;
  int column = 1;
  std::string text;         // Text: as written, without quotes
  bool plain = false;       // Text: it had no quotes, so 1 may be a number
  std::vector<Node> keys;   // Map: keys[i] belongs to items[i]; duplicates are kept
  std::vector<Node> items;  // Map or List
};

// The root is Null for an empty text. One that is longer than `limit` is refused.
Result<Node, std::vector<Problem>> parse_yaml(std::string_view text,
                                              std::size_t limit = job_size_limit);

// "a list", "the text 'abc'": for messages.
std::string describe(const Node& node);

}  // namespace spotter::config
