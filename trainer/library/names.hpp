// Names in a directory of checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::checkpoint {

inline constexpr std::string_view kTemporary = ".tmp-";  // being made, or being removed
inline constexpr std::string_view kTorn = "torn-";       // set aside; a prefix of the name

inline constexpr std::string_view kPrefix = "step-";

inline constexpr const char* kLockName = ".writer";  // the writer's (writer_lock.hpp)
inline constexpr std::string_view kClaimName = ".writer-of-gang";

// "step-000000001234"
std::string directory_name(std::uint64_t step);
std::optional<std::uint64_t> step_of(std::string_view name);  // none: another name

// The steps of its checkpoints, complete or torn, newest first. Empty if the directory does not
// exist.
Result<std::vector<std::uint64_t>> steps_in(const std::filesystem::path& directory);

// Removes leftovers of dead writers. Failures are ignored until the next call.
void remove_leftovers(const std::filesystem::path& directory);

}  // namespace spotter::checkpoint
