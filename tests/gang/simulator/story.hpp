// Puts the changes of a gang's record into words: the story that --replay prints.
#pragma once

#include <string>
#include <vector>

#include "agent/gang/record.hpp"

namespace spotter::gang {

// "its workers failed", of what one machine says of its last round.
std::string to_words(End end);
// A sentence for each change from `before` to `after`, which `by` wrote; that it only lives is
// none.
std::vector<std::string> changes(const std::optional<Record>& before, const Record& after,
                                 const std::string& by);

}  // namespace spotter::gang
