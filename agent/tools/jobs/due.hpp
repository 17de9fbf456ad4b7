// By when a launched job is to have finished.
#pragma once

#include <optional>
#include <vector>

#include "agent/job/deadline.hpp"
#include "agent/tools/jobs/fleets.hpp"

namespace spotter::command {

// When the first of its own fleets was made, by those that EC2 still shows (for two days after
// their end) and what their tags say of those before them. None: it was not launched.
std::optional<wire::WallTime> first_launch_of(const std::vector<JobFleet>& fleets);

// finish_by, or so long after its first launch. None: it has no deadline, or was not launched.
std::optional<wire::WallTime> due_of(const config::Deadline& deadline,
                                     const std::vector<JobFleet>& fleets);

}  // namespace spotter::command
