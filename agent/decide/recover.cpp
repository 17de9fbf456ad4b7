// No volume carries the discovery tag. Either a move was committed and its candidate is not yet
// promoted, or the volume was lost, or there never was one.
#include <algorithm>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {

const SeenVolume* elect(const Survey& survey) {
  const SeenVolume* best = nullptr;
  for (const SeenVolume& volume : survey.volumes) {
    const bool able = volume.role == Role::Verified && volume.state != VolumeState::Deleting &&
                      volume.state != VolumeState::Error;
    if (!able) continue;
    // A copy of an earlier generation lacks what was written since, whatever its id.
    const auto age = [](const SeenVolume& it) { return std::pair(it.generation, it.moves); };
    const bool newer = best && age(volume) > age(*best);
    const bool tie = best && age(volume) == age(*best) && volume.id < best->id;
    if (!best || newer || tie) best = &volume;
  }
  return best;
}

namespace {

Stage promote_candidate(const Survey& survey, const SeenVolume& best, Context& c) {
  const SeenVolume* held = other_attached_here(survey, c.facts, best.id);
  if (held) return drop(*held, c);  // ours was not elected
  const bool elsewhere = best.holder && best.holder != c.facts.identity.instance;
  if (elsewhere && best.holder_state == HolderState::Alive) return held_by_other(best, c);
  c.ask(PromoteVolume{best.id}, c.policy.ec2_call);
  return Promoting{best.id};
}

}  // namespace

// Who committed promotes its copy so that it is seen by then (migrate.cpp). Another candidate may
// have been verified or promoted just now: each has its own bound.
Duration commit_settles_in(const VolumeId& elected, Context& c) {
  Facts::Move& move = c.facts.move;
  if (move.parent_gone_since == kNever || move.elected != elected) {
    move.parent_gone_since = c.now;
    move.elected = elected;
  }
  return move.parent_gone_since + 2 * c.policy.consistency_bound - c.now;
}

Stage recover(const Survey& survey, const Survey& everything, Context& c) {
  const SeenVolume* best = elect(survey);
  const SeenSnapshot* newest = nullptr;
  for (const SeenSnapshot& snapshot : survey.snapshots) {
    if (snapshot.state != SnapshotState::Completed) continue;
    if (!newest || snapshot.started > newest->started) newest = &snapshot;
  }
  // Only a person removes the discovery tag of the job's volume, and only a person can restore it.
  for (const SeenVolume& volume : (best ? survey : everything).volumes) {
    const bool lost = volume.role == Role::State && volume.state != VolumeState::Deleting;
    if (lost && !volume.discoverable) return block(c, Block::NoVolume, Detail(volume.id.view()));
  }
  // In the middle of a move EC2 may show no more yet than a copy without its tags.
  const bool moves = !survey.snapshots.empty() ||
                     std::any_of(survey.volumes.begin(), survey.volumes.end(), is_copy);
  if (!moves) return block(c, Block::NoVolume, {});
  const Duration left = commit_settles_in(best ? best->id : VolumeId(), c);
  if (left > Duration::zero()) {
    return wait(c, Wait::CommitSettling, std::min<Duration>(left, c.policy.poll_snapshot));
  }
  if (best) return promote_candidate(survey, *best, c);
  if (!newest) return block(c, Block::NoVolume, {});
  return advance_candidate(survey, newest->parent, newest->generation, true, c);
}

}  // namespace spotter::decide
