// Which volumes and snapshots are this job's. Two jobs of one name share a tag, but not the first
// volume (survey.hpp).
#include <algorithm>
#include <vector>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Survey of_line(const Survey& survey, const VolumeId& known, const VolumeId& current) {
  VolumeId line = known;  // empty for an agent that adopted its trainer: it knows only the volume
  for (const SeenVolume& volume : survey.volumes) {
    if (volume.id == current) line = line_of(volume);
  }
  Survey ours;
  ours.data = survey.data;
  ours.epoch_line = survey.epoch_line;
  ours.epoch = survey.epoch;
  ours.epoch_holder = survey.epoch_holder;
  for (const SeenVolume& volume : survey.volumes) {
    const bool old_copy = is_copy(volume) && !volume.lineage && volume.parent == current;
    if (line_of(volume) == line || volume.id == current || old_copy) ours.volumes.push_back(volume);
  }
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    const bool old_copy = !snapshot.lineage && snapshot.parent == current;
    if (line_of(snapshot) == line || old_copy) ours.snapshots.push_back(snapshot);
  }
  return ours;
}

bool learn_line(const Survey& survey, Context& c) {
  if (c.facts.move.lineage) return false;
  for (const SeenVolume& volume : survey.volumes) {
    if (volume.id != c.facts.holding.volume) continue;
    c.facts.move.lineage = line_of(volume);
    c.facts.move.moves = volume.moves;
    return survey.epoch_line != c.facts.move.lineage;
  }
  return false;
}

Detail lines_left(const Survey& survey, VolumeId& line) {
  // A line that is known is kept while anything of it is shown: its copy may only be verified later
  // than another line's.
  const auto ours = [&](const auto& it) { return line_of(it) == line; };
  if (line && (std::any_of(survey.volumes.begin(), survey.volumes.end(), ours) ||
               std::any_of(survey.snapshots.begin(), survey.snapshots.end(), ours)))
    return {};
  std::vector<VolumeId> lines;
  const auto add = [&](const VolumeId& found) {
    if (std::find(lines.begin(), lines.end(), found) == lines.end()) lines.push_back(found);
  };
  for (const SeenVolume& volume : survey.volumes) {
    if (is_copy(volume) && volume.role == Role::Verified) add(line_of(volume));
  }
  if (lines.empty()) {
    for (const SeenSnapshot& snapshot : survey.snapshots) add(line_of(snapshot));
  }
  if (lines.empty()) return {};
  line = lines.front();
  std::string names;
  for (const VolumeId& it : lines) names += (names.empty() ? "lines of " : ", ") + it.str();
  return lines.size() > 1 ? Detail(names) : Detail();
}

}  // namespace spotter::decide
