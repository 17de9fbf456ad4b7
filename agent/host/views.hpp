// The mounts that show a channel in mode `fast_file` (agent/data/fast_file).
#pragma once

#include <cstddef>
#include <filesystem>

namespace spotter::act::host {

// Unmounts each of them at this place or below it, the topmost first, whoever uses it, and whether
// or not its process still runs. How many there were.
std::size_t detach_views(const std::filesystem::path& place);

}  // namespace spotter::act::host
