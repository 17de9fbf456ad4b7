#include "agent/tools/jobs/due.hpp"

#include <algorithm>
#include <chrono>

namespace spotter::command {

std::optional<wire::WallTime> due_of(const config::Deadline& deadline,
                                     const std::vector<JobFleet>& fleets) {
  if (!deadline.within) return deadline.finish_by;
  std::optional<wire::WallTime> first;
  for (const JobFleet& it : fleets)
    if (it.is_own() && it.created) first = std::min(first.value_or(*it.created), *it.created);
  if (!first) return std::nullopt;
  return *first + std::chrono::ceil<std::chrono::seconds>(*deadline.within);
}

}  // namespace spotter::command
