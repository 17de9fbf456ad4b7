// Removes what a trainer may have filled. Internal to guard.
#pragma once

#include <cstddef>
#include <string>

#include "agent/io/safe_directory.hpp"

namespace spotter::guard {

inline constexpr std::size_t removals_limit = 200'000;  // some seconds

// A file, or a folder with all that is in it; no link is followed. At most `left` names, from which
// those that were tried are taken: what is not removed now is so the next time.
void remove_any(const io::SafeDirectory& from, const std::string& name, std::size_t& left);

}  // namespace spotter::guard
