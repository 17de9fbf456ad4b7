#include "agent/tools/jobs/places.hpp"

#include <algorithm>

#include "agent/tools/jobs/launched_job.hpp"

namespace spotter::command {

Result<std::unique_ptr<AwsCalls>> calls_in(const std::string& region) {
  if (region.empty()) return AwsCalls::open();
  return AwsCalls::open(Region(region));
}

Result<std::vector<JobPlace>> unnamed_places_of(const config::Job& job) {
  std::vector<JobPlace> places;
  for (std::size_t i = 0; i < std::max<std::size_t>(job.launch->places.size(), 1); ++i) {
    JobPlace place{nullptr, job};
    place.job.launch = config::launch_at(*job.launch, i);
    auto calls = calls_in(place.job.launch->region);
    if (!calls) return tl::unexpected(calls.error());
    place.calls = std::move(*calls);
    const Region& region = place.calls->region();
    if (std::ranges::any_of(places, [&](const auto& it) { return it.calls->region() == region; }))
      return failure("launch.pools: " + region.str() +
                     " is there twice, once as the region that AWS_REGION names");
    places.push_back(std::move(place));
  }
  return places;
}

Result<std::vector<JobPlace>> places_of(const config::Job& job) {
  auto places = unnamed_places_of(job);
  if (!places) return places;
  for (JobPlace& it : *places)
    if (const auto named = name_zones(*it.calls, *it.job.launch); !named)
      return failure(named.error().message);
  return places;
}

}  // namespace spotter::command
