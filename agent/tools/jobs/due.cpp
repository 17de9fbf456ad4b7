#include "agent/tools/jobs/due.hpp"

#include <algorithm>
#include <chrono>

namespace spotter::command {

std::optional<wire::WallTime> first_launch_of(const std::vector<JobFleet>& fleets) {
  std::optional<wire::WallTime> first;
  for (const JobFleet& it : fleets)
    for (const auto& time : {it.created, it.first_launch})
      if (it.is_own() && time) first = std::min(first.value_or(*time), *time);
  return first;
}

std::optional<wire::WallTime> due_of(const config::Deadline& deadline,
                                     const std::vector<JobFleet>& fleets) {
  if (!deadline.within) return deadline.finish_by;
  const auto first = first_launch_of(fleets);
  if (!first) return std::nullopt;
  return *first + std::chrono::ceil<std::chrono::seconds>(*deadline.within);
}

}  // namespace spotter::command
