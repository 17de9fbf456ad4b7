// Names in a directory of checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::checkpoint {

inline constexpr std::string_view kTemporary = ".tmp-";  // half made, or half removed
inline constexpr std::string_view kTorn = "torn-";       // set aside, before the name

inline constexpr std::string_view kPrefix = "step-";

// "step-000000001234"
std::string directory_name(std::uint64_t step);

// The steps of the checkpoints in it, whole or torn, newest first. A directory that does not exist
// has none.
Result<std::vector<std::uint64_t>> steps_in(const std::filesystem::path& directory);

// Removes what dead writers left behind. What fails is tried another time.
void remove_leftovers(const std::filesystem::path& directory);

}  // namespace spotter::checkpoint
