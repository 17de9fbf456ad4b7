// Copies of files and folders as they are at this instant, sharing blocks where the file system
// can.
#pragma once

#include <filesystem>

#include "agent/base/result.hpp"

namespace spotter::emulator {

// A regular file (holes stay holes) or a folder with everything in it (owners, modes, times,
// links). The copy appears under its name only when it is complete.
Result<void> copy_as_of_now(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace spotter::emulator
