// The sets of a sweep that an engine's job has, if not all: "3,17-19/50" are four of the 50.
// `spotter sweep` passes it to the container, whose array counts from 0.
#pragma once

#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::sweep {

inline constexpr const char* indices_variable = "SPOTTER_SWEEP_INDICES";

struct IndexList {
  std::vector<std::uint64_t> indices;  // ascending
  std::uint64_t of = 0;                // how many sets there are
};

IndexList all_indices(std::uint64_t sets);  // `sets` sets, all of them
std::string to_text(const IndexList& list);
// Fails for a text that to_text() would not produce, and for more than most_sets.
Result<IndexList> parse_index_list(std::string_view text);

}  // namespace spotter::sweep
