// By when a launched job is to have finished.
#pragma once

#include <optional>
#include <vector>

#include "agent/job/deadline.hpp"
#include "agent/tools/jobs/fleets.hpp"

namespace spotter::command {

// finish_by, or so long after its first launch, by the fleets of its that EC2 still shows (for two
// days after their end). None: it has no deadline, or was not launched.
std::optional<wire::WallTime> due_of(const config::Deadline& deadline,
                                     const std::vector<JobFleet>& fleets);

}  // namespace spotter::command
