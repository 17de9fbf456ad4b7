// Brings what `prepare:` of job.yaml names onto the volume that is mounted.
#pragma once

#include <functional>

#include "agent/wire/verbs.hpp"

namespace spotter::command {

using Stopping = std::function<bool()>;

// Each source's files in their folder, whole and durable, as the user's; what is there already is
// not fetched again. Then the manifest, .spotter/prepared.json. Answers one line for each source.
// REQUIRES: the volume is mounted and laid out.
Result<std::vector<std::string>> fill(const verbs::Fill& request, const Stopping& stop);

}  // namespace spotter::command
