#include "agent/launch/tag_words.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace spotter::launch {

std::map<std::string, std::string, std::less<>> words_of_tag(std::string_view tag) {
  std::map<std::string, std::string, std::less<>> words;
  while (!tag.empty()) {
    const auto end = std::min(tag.find(' '), tag.size());
    const std::string_view word = tag.substr(0, end);
    if (const auto equals = word.find('='); equals != word.npos)
      words.emplace(word.substr(0, equals), word.substr(equals + 1));
    tag.remove_prefix(std::min(end + 1, tag.size()));
  }
  return words;
}

std::string figure(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace spotter::launch
