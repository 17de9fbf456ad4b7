// A look at EC2 as service/act/cloud.cpp takes it.
#include <algorithm>
#include <memory>

#include "tests/simulate/marks.hpp"
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

decide::EffectFailed not_in_time() {
  decide::EffectFailed failed;
  failed.detail = "timed out";
  return failed;
}

bool is_there(const world::Volume& volume) { return volume.state != world::VolumeState::Deleted; }

decide::SeenVolume seen(const world::Volume& volume, const Marks& marks) {
  using world::VolumeState;
  decide::SeenVolume result;
  result.id = volume.id;
  result.zone = volume.zone;
  switch (volume.state) {
    case VolumeState::Creating:
      result.state = decide::VolumeState::Creating;
      break;
    case VolumeState::Available:
      result.state = decide::VolumeState::Available;
      break;
    case VolumeState::InUse:
      result.state = decide::VolumeState::InUse;
      break;
    case VolumeState::Error:
      result.state = decide::VolumeState::Error;
      break;
    default:
      result.state = decide::VolumeState::Deleting;
  }
  result.discoverable = marks.found();
  if (marks.role == "candidate") result.role = decide::Role::Candidate;
  if (marks.role == "verified") result.role = decide::Role::Verified;
  result.parent = VolumeId(marks.parent);
  result.lineage = VolumeId(marks.lineage);
  result.moves = number_in(marks.moves);
  result.generation = number_in(marks.generation);
  result.ours_to_format = marks.format == "blank";
  result.done = marks.done == "true";
  if (volume.snapshot) result.from = *volume.snapshot;
  if (!volume.attachment) return result;
  result.holder = volume.attachment->instance;
  result.attached_as = ShortText<31>(volume.attachment->device);
  switch (volume.attachment->state) {
    case world::AttachmentState::Attaching:
      result.attachment = decide::AttachmentState::Attaching;
      break;
    case world::AttachmentState::Attached:
      result.attachment = decide::AttachmentState::Attached;
      break;
    case world::AttachmentState::Detaching:
      result.attachment = decide::AttachmentState::Detaching;
      break;
    default:
      result.attachment = decide::AttachmentState::Busy;
  }
  return result;
}

decide::SeenSnapshot seen(const world::Snapshot& snapshot, const Marks& marks, Time now) {
  using world::SnapshotState;
  decide::SeenSnapshot result;
  result.id = snapshot.id;
  result.parent = snapshot.volume;
  result.lineage = VolumeId(marks.lineage);
  result.moves = number_in(marks.moves);
  result.generation = number_in(marks.generation);
  if (marks.ahead == "true") result.taken = decide::Taken::InUse;
  if (marks.ahead == "released") result.taken = decide::Taken::Released;
  result.age = now - snapshot.started;
  result.gibibytes = snapshot.gibibytes;
  result.started = std::chrono::floor<seconds>(snapshot.started.time_since_epoch()).count();
  switch (snapshot.state) {
    case SnapshotState::Completed:
      result.state = decide::SnapshotState::Completed;
      break;
    case SnapshotState::Error:
      result.state = decide::SnapshotState::Failed;
      break;
    case SnapshotState::Recoverable:
      result.state = decide::SnapshotState::Recoverable;
      break;
    default:
      result.state = decide::SnapshotState::Pending;
  }
  return result;
}

}  // namespace

std::vector<decide::SeenVolume> Simulation::data_seen() {
  std::vector<decide::SeenVolume> found;
  world_.cloud().volumes.each_seen(now_, [&](const world::Volume& it) {
    const Marks marks = marks_of(it.tags);
    const bool ours = is_there(it) && marks.of_the_job() && marks.role == "data";
    if (ours) found.push_back(seen(it, marks));
  });
  return found;
}

decide::HolderState Simulation::state_of(const InstanceId& holder) {
  if (!holder) return decide::HolderState::Alive;
  const world::Instance* its = world_.instances(now_).seen(holder);
  if (!its || its->state == world::InstanceState::Terminated) return decide::HolderState::Gone;
  const bool stopped = its->state == world::InstanceState::Stopped;
  return stopped ? decide::HolderState::Stopped : decide::HolderState::Alive;
}

// Four calls one after the other, as service/act/cloud.cpp makes them: the picture is of no one
// instant.
void Simulation::survey(Host& host, const decide::Effect& effect) {
  if (fires(menu_.call_fails / 2)) {
    return answer_later(host, effect.id, between(seconds(1), effect.deadline - now_),
                        not_in_time());
  }
  for (const char* action : {"DescribeVolumes", "DescribeSnapshots", "DescribeInstances"}) {
    if (const auto error = refused(action)) {
      return answer_later(host, effect.id, between(milliseconds(100), seconds(7)), *error);
    }
  }
  const auto picture = std::make_shared<decide::Survey>();
  const auto gap = [this] { return between(milliseconds(10), milliseconds(250)); };
  Duration later = gap();
  at(later, [this, picture] {
    world_.cloud().volumes.each_seen(now_, [&](const world::Volume& it) {
      if (!is_there(it)) return;
      const Marks marks = marks_of(it.tags);
      if (marks.found()) picture->volumes.push_back(seen(it, marks));
    });
  });
  at(later += gap(), [this, picture] {
    world_.cloud().volumes.each_seen(now_, [&](const world::Volume& it) {
      if (!is_there(it)) return;
      const Marks marks = marks_of(it.tags);
      if (!marks.of_the_job()) return;
      const bool known = std::any_of(picture->volumes.begin(), picture->volumes.end(),
                                     [&](const auto& other) { return other.id == it.id; });
      if (known) return;
      (marks.role == "data" ? picture->data : picture->volumes).push_back(seen(it, marks));
    });
  });
  at(later += gap(), [this, picture] {
    world_.cloud().snapshots.each_seen(now_, [&](const world::Snapshot& it) {
      if (it.state == world::SnapshotState::Deleted) return;
      const Marks marks = marks_of(it.tags);
      if (marks.of_the_job()) picture->snapshots.push_back(seen(it, marks, now_));
    });
  });
  at(later += gap(), [this, picture, id = host.id, run = host.agent.run, asked = effect.id,
                      line = std::get<decide::SurveyStorage>(effect.what).line] {
    Host* asker = agent_of(id, run);
    if (!asker) return;
    for (auto* volumes : {&picture->volumes, &picture->data}) {
      for (decide::SeenVolume& volume : *volumes) volume.holder_state = state_of(volume.holder);
    }
    if (policy_.fence) {
      if (fence_fails()) {
        return take(*asker, {now_, asked, failure(decide::Failure::Unavailable, "SlowDown")});
      }
      read_epoch(*picture, line);
    }
    take(*asker, {now_, asked, decide::StorageSurveyed{std::move(*picture)}});
  });
}

}  // namespace spotter::simulate
