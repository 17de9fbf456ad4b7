// What was copied of a volume, and what a move may make its copy of.
#include <algorithm>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {

// Else it may lack what was written after it.
bool is_of_the_whole(const SeenSnapshot& it, const Policy& policy) {
  if (it.taken == Taken::Released) return it.age < policy.released_counts;
  return it.taken == Taken::Moving;
}

// The newest generation in which it was used, also where its tag was lost since: what was copied of
// it bears that of the copy.
std::uint32_t used_generation(const SeenVolume& volume, const Survey& survey) {
  std::uint32_t newest = volume.generation;
  for (const SeenSnapshot& it : survey.snapshots) {
    if (it.parent == volume.id) newest = std::max(newest, it.generation);
  }
  for (const SeenVolume& it : survey.volumes) {
    if (it.parent == volume.id) newest = std::max(newest, it.generation);
  }
  return newest;
}

std::optional<Detail> copy_of(const Survey& survey, const VolumeId& volume) {
  for (const SeenSnapshot& it : survey.snapshots)
    if (it.parent == volume && it.taken == Taken::Moving) return Detail(it.id.view());
  for (const SeenVolume& it : survey.volumes)
    if (it.parent == volume) return Detail(it.id.view());
  return std::nullopt;
}

}  // namespace spotter::decide
