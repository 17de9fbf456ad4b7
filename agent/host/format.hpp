// mkfs, on a disk that is provably blank and on no other.
#pragma once

#include <filesystem>
#include <string>

#include "agent/host/failure.hpp"
#include "agent/host/inspect.hpp"

namespace spotter::act::host {

// Inspects, makes the file system ("xfs" or "ext4") without any force option, inspects again.
// Kinds: "not-blank", "device-busy", "tool-missing" (names the package), "format-failed",
// "bad-request", and those of inspect().
Result<Inspection> format(const std::filesystem::path& device, const std::string& filesystem);

}  // namespace spotter::act::host
