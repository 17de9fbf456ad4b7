// `.spotter` of a job's home: what Spotter knows of the job.
#pragma once

#include <filesystem>

#include "agent/host/failure.hpp"
#include "agent/io/beneath.hpp"

namespace spotter::act::host {

inline constexpr const char* own_directory = ".spotter";

// Opens it in an opened home, or in one by its path. On a volume it is root's, and what it holds is
// believed: one that somebody else put there is refused. With the rights of the trainer's user
// (AsUser: on a share) or without root's, its owner proves nothing, and nothing is at risk.
// Kinds: "not-mounted" (there is none), "layout-unusable" (a link, no folder, not ours), those of
// fail_errno.
Result<io::Beneath> open_own(const io::Beneath& home);
Result<io::Beneath> open_own(const std::filesystem::path& home);

// Does it belong to whom it must? `status` is of a folder or a file of ours.
bool is_ours(const struct stat& status);

}  // namespace spotter::act::host
