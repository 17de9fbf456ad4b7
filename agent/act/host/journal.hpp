// The agent's own words beside the job's account: `.spotter/agent.log` in the job's home. Instances
// come and go, and their journals with them.
#pragma once

#include <filesystem>
#include <string_view>

#include "agent/act/host/failure.hpp"

namespace spotter::act::host {

// Appends `lines`, durably. A file of some MiB becomes `agent.log.1`, in the place of the one
// before. Kinds: those of fail_errno, "not-mounted" (there is no .spotter directory).
Outcome<void> keep_journal(const std::filesystem::path& home, std::string_view lines);

}  // namespace spotter::act::host
