// Things outside this job's history: another job of the same name, with another volume, and the
// volume that was deleted for its copy and is there again.
#include "tests/simulate/marks.hpp"
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::minutes;
using std::chrono::seconds;

// Drawn from a sequence of their own: runs without others stay the same for each seed.
void Simulation::choose_others() {
  if (!on_volume()) return;
  menu_.set(Fault::Namesake, others_.below(6) == 0);
  // Excludes a volume deleted by hand: such a job goes on from the one that is back.
  menu_.set(Fault::Restored, others_.below(3) == 0 && !menu_.has(Fault::VolumeDeleted));
  if (!menu_.has(Fault::Namesake)) return;
  at(others_.within({seconds(1), minutes(40)}), [this] { add_namesake(); });
}

void Simulation::choose_fleet_tags() {
  menu_.set(Fault::FleetTagsLate, tags_.below(3) == 0);
  if (menu_.has(Fault::FleetTagsLate)) world_.settings().fleet_tags = {seconds(5), seconds(90)};
}

// Its volume, a copy on its way to another zone, and the snapshot of it; made by an agent, or, with
// fewer tags, by hand.
void Simulation::add_namesake() {
  if (now_ >= calm_ || !strays_.empty()) return;
  needs_person_ = true;
  const auto& zones = world_.settings().zones;
  const auto make = [&](world::Tags tags) {
    world::CreateVolume request;
    request.zone = zones[others_.below(zones.size())];
    request.gibibytes = 10;
    request.type = "gp3";
    request.tags = std::move(tags);
    request.tags["spotter:job"] = kJob;
    const auto made = world_.volumes(now_).create(request);
    if (made) strays_.insert(made->id), namesakes_.insert(made->id);
    return made ? made->id : VolumeId();
  };
  const std::string generation = std::to_string(others_.below(9));
  const VolumeId first = make({{"spotter:role", "state"}, {"spotter:generation", generation}});
  if (!first) return;
  say("user", "has a job of the same name on ", first);
  world::Tags tags = {{"spotter:parent", first.str()}, {"spotter:generation", generation}};
  if (others_.below(3) != 0) tags["spotter:lineage"] = first.str();
  if (others_.below(2) != 0) tags["spotter:storage"] = "team=another";
  tags["spotter:role"] = others_.below(2) ? "candidate" : "verified";
  (void)make(tags);
  // Its move is committed: its copy alone is left for a while. Older agents make copies without the
  // tag of their storage, and nobody can know then which job such a copy belongs to.
  if (tags.count("spotter:storage")) {
    at(others_.within({minutes(5), minutes(60)}),
       [this, first] { (void)world_.volumes(now_).remove(first); });
  }
  at(others_.within({seconds(40), minutes(5)}), [this, first, tags] {
    if (!namesakes_.count(first)) return;
    world::Tags its = tags;
    its["spotter:job"] = kJob;
    its["spotter:role"] = "snapshot";
    const auto made = world_.snapshots(now_).create({first, "", its});
    if (made) namesake_snapshots_.insert(made->id);
  });
  at(others_.within({minutes(10), minutes(90)}), [this] { end_namesake(); });
}

void Simulation::end_namesake() {
  for (const VolumeId& id : namesakes_) (void)world_.volumes(now_).remove(id);
  for (const SnapshotId& id : namesake_snapshots_) (void)world_.snapshots(now_).remove(id);
}

// A person takes it out of the bin when the copy has been the job's volume for some time.
void Simulation::restore_later(const VolumeId& id, bool again) {
  at(others_.within({minutes(2), minutes(60)}), [this, id, again] {
    bool followed = false;
    world_.cloud().volumes.each([&](const world::Volume& other) {
      followed = followed || (other.state != world::VolumeState::Deleted && other.id != id &&
                              other.tags.count(kDiscoveryKey) && !is_aside(other.id));
    });
    if (now_ >= calm_ || !followed) return;
    if (!again) return restore_later(id, true);
    say("user", "takes ", id, " out of the recycle bin");
    past_.insert(id);
    auto& cloud = const_cast<world::Cloud&>(world_.cloud());
    cloud.volumes.change(id, now_, cloud.lag()).state = world::VolumeState::Available;
  });
}

// A person begins the job again: what is still there, in the recycle bin or as a copy that nobody
// verified, is of the former volume's line, and a person's to delete.
void Simulation::leave_behind() {
  world_.cloud().volumes.each([&](const world::Volume& volume) { past_.insert(volume.id); });
  world_.cloud().snapshots.each(
      [&](const world::Snapshot& snapshot) { past_snapshots_.insert(snapshot.id); });
}

// Nothing is done to what is another's, whatever it is called.
void Simulation::judge_others(const decide::Command& command) {
  std::visit(
      [this](const auto& it) {
        if constexpr (requires { it.volume; }) {
          if (namesakes_.count(it.volume)) broken("another job's volume is used or changed");
        }
        if constexpr (requires { it.snapshot; }) {
          if (namesake_snapshots_.count(it.snapshot)) {
            broken("another job's snapshot is used or deleted");
          }
        }
      },
      command);
}

}  // namespace spotter::simulate
