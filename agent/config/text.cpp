// Expansion of ${NAME}, and suggestions for mistyped words.
#include <algorithm>
#include <numeric>

#include "agent/config/values.hpp"

namespace spotter::config {
namespace {

// Differences in case, and between '-' and '_', are the most frequent: they cost nothing.
std::string plain(std::string_view word) {
  std::string text(word);
  for (char& each : text) {
    if (each == '-') each = '_';
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  }
  return text;
}

// The number of edits between the two: insert, delete, replace, or swap two neighbours.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  std::iota(previous.begin(), previous.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = previous;
    previous = row;
  }
  return previous[b.size()];
}

}  // namespace

Result<std::string> expand(std::string_view text,
                           const std::map<std::string, std::string>& variables) {
  std::string expanded;
  while (!text.empty()) {
    const auto dollar = text.find('$');
    expanded += text.substr(0, dollar);
    if (dollar == text.npos) break;
    text.remove_prefix(dollar);
    if (text.starts_with("$${")) {
      expanded += "${";
      text.remove_prefix(3);
    } else if (text.starts_with("${")) {
      const auto end = text.find('}');
      if (end == text.npos) return failure("'${' without its '}'; a plain '${' is written '$${'");
      const std::string name(text.substr(2, end - 2));
      const auto found = variables.find(name);
      if (found == variables.end())
        return failure("the environment has no variable '" + name +
                       "'; a plain '${' is written '$${'");
      expanded += found->second;
      text.remove_prefix(end + 1);
    } else {
      expanded += '$';
      text.remove_prefix(1);
    }
  }
  return expanded;
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr std::size_t longest = 64;  // keys are shorter; keeps the table small
  if (word.size() > longest) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const auto candidate : candidates) {
    const std::size_t edits = distance(plain(word), plain(candidate));
    if (edits >= best_distance) continue;
    best = candidate;
    best_distance = edits;
  }
  return best;
}

}  // namespace spotter::config
