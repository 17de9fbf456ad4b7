#include "agent/config/index_list.hpp"

#include <numeric>

#include "agent/aws/formats/s3.hpp"
#include "agent/config/parameters.hpp"

namespace spotter::sweep {
namespace {

// Adds "17-19" or "3"; false: it is not beyond all earlier ones.
bool add_range(std::string_view text, IndexList& list) {
  const auto dash = text.find('-');
  const auto first = wire::parse_count(text.substr(0, dash));
  const auto last = dash == text.npos ? first : wire::parse_count(text.substr(dash + 1));
  if (!first || !last || *first > *last || *last >= list.of) return false;
  if (!list.indices.empty() && *first <= list.indices.back()) return false;
  for (std::uint64_t index = *first; index <= *last; ++index) list.indices.push_back(index);
  return true;
}

}  // namespace

IndexList all_indices(std::uint64_t sets) {
  IndexList list{std::vector<std::uint64_t>(sets), sets};
  std::iota(list.indices.begin(), list.indices.end(), 0);
  return list;
}

std::string to_text(const IndexList& list) {
  std::string text;
  for (std::size_t at = 0; at < list.indices.size();) {
    std::size_t end = at + 1;
    while (end < list.indices.size() && list.indices[end] == list.indices[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(list.indices[at]);
    if (end - at > 1) text += '-' + std::to_string(list.indices[end - 1]);
    at = end;
  }
  return text + '/' + std::to_string(list.of);
}

Result<IndexList> parse_index_list(std::string_view text) {
  const auto wrong = failure("'" + std::string(text) + "' is no list of indices, as in 3,17-19/50");
  const auto slash = text.find('/');
  if (slash == text.npos) return wrong;
  const auto of = wire::parse_count(text.substr(slash + 1));
  if (!of || *of == 0 || *of > most_sets) return wrong;
  IndexList list{{}, *of};
  std::string_view ranges = text.substr(0, slash);
  while (true) {
    const auto comma = ranges.find(',');
    if (!add_range(ranges.substr(0, comma), list)) return wrong;
    if (comma == ranges.npos) return list;
    ranges.remove_prefix(comma + 1);
  }
}

}  // namespace spotter::sweep
