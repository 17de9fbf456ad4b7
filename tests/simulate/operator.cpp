// Actions of operators on a running job: by mistake, on purpose, and to mend it.
#include "tests/simulate/simulation.hpp"
#include "tests/world/tagging.hpp"

namespace spotter::simulate {

using std::chrono::minutes;
using std::chrono::seconds;

namespace {

bool carries_discovery_tag(const world::Volume& volume) {
  const auto found = volume.tags.find(kDiscoveryKey);
  return volume.state != world::VolumeState::Deleted && found != volume.tags.end();
}

}  // namespace

void Simulation::inject_operator_fault(Fault fault) {
  if (fault == Fault::SecondVolume) return add_second_volume();
  if (fault == Fault::VolumeDeleted) return delete_volume();
  const world::FleetRequest* fleet = world_.cloud().fleets.find(fleet_.id);
  if (!fleet || fleet->target == 0) return;
  // Two machines that begin within one bound cannot see each other: without claims nothing locks a
  // share (README).
  const auto begins = [this](const auto& it) {
    return it.second.alive && now_ - it.second.booted < policy_.consistency_bound;
  };
  if (on_share() && std::any_of(hosts_.begin(), hosts_.end(), begins)) return;
  const bool overlap = fault == Fault::Overlap;
  raise_target(menu_.fleet + (overlap ? 1 : 1 + static_cast<int>(luck_.below(3))));
  at(luck_.within({seconds(30), minutes(10)}), [this] {
    const world::FleetRequest* its = world_.cloud().fleets.find(fleet_.id);
    if (its && its->target > menu_.fleet) raise_target(menu_.fleet);
  });
}

bool Simulation::raise_target(int target) {
  say("user", "the fleet's target is ", target);
  target_since_ = now_;
  if (on_share() && target > 1) needs_person_ = true;  // all but the first wait for its end
  return world_.fleets(now_).modify({fleet_.id, target, {}}, fleet_.kind).has_value();
}

// `tagged`: a new disk that Spotter may format.
void Simulation::make_volume(const Zone& zone, bool tagged) {
  world::CreateVolume volume;
  volume.zone = zone;
  volume.gibibytes = gibibytes_;
  volume.type = "gp3";
  volume.encrypted = menu_.has(Fault::KeyForbidden);
  volume.tags = {{kDiscoveryKey, kDiscoveryValue}};
  if (tagged) volume.tags["spotter:format"] = "blank";
  (void)world_.volumes(now_).create(volume);
}

// Another volume with the same name, with another's data or none.
void Simulation::add_second_volume() {
  if (!strays_.empty()) return;
  needs_person_ = true;
  const auto& zones = world_.settings().zones;
  world::CreateVolume request;
  request.zone = zones[luck_.below(zones.size())];
  request.gibibytes = 10;
  request.type = "gp3";
  request.tags = {{kDiscoveryKey, kDiscoveryValue}};
  if (luck_.below(2) == 0) request.tags["spotter:format"] = "blank";
  const auto made = world_.volumes(now_).create(request);
  if (!made) return;
  const VolumeId id = made->id;
  strays_.insert(id);
  if (luck_.below(2) == 0) disks_[id].content = Disk::Content::Foreign;
  say("user", "tagged a second volume, ", id);
  at(luck_.within({minutes(1), minutes(90)}), [this, id] {
    say("user", "took the tag from ", id);
    (void)world::delete_tags(const_cast<world::Cloud&>(world_.cloud()), {id.str()},
                             {{kDiscoveryKey, std::nullopt}});
  });
}

// The job's volume, while no instance has it: an operator chose to lose what was on it.
void Simulation::delete_volume() {
  VolumeId id;
  bool result = false;
  world_.cloud().volumes.each([&](const world::Volume& volume) {
    if (carries_discovery_tag(volume)) id = volume.id;
    result = result || disks_[volume.id].result;
  });
  const world::Volume* volume = id ? world_.cloud().volumes.find(id) : nullptr;
  if (!volume || result || volume->state != world::VolumeState::Available) return;
  needs_person_ = true;
  durable_ = -1;
  given_back_ = 0;
  prepared_ = false;
  say("user", "deletes ", id);
  (void)world_.volumes(now_).remove(id);
}

// An operator looks after a job that is blocked: repairs what needs a person, and raises the
// fleet's target again.
void Simulation::come_back() {
  if (awaited_) return;
  awaited_ = true;
  at(between(minutes(1), minutes(20)), [this] {
    awaited_ = false;
    say("user", "looks after the job");
    surrender_ = decide::Surrender::None;
    given_back_ = 0;
    mend();
    for (auto& [id, host] : hosts_) {  // held: it waits for a new beginning
      const bool gave_up = std::holds_alternative<decide::GaveUp>(host.agent.state.stage);
      if (host.alive && gave_up) (void)world_.kill(id, now_);
    }
    share_.over = false;
    const world::FleetRequest* fleet = world_.cloud().fleets.find(fleet_.id);
    if (fleet->target == 0) raise_target(menu_.fleet);
  });
}

void Simulation::mend() {
  git_back_ = revision_back_ = now_;
  if (on_share()) return mend_share();
  if (in_bucket()) {
    for (auto& [id, disk] : disks_) disk.full = false;
    return;
  }
  end_namesake();
  bool any = false;
  for (const bool stray : {true, false}) {
    world_.cloud().volumes.each([&](const world::Volume& volume) {
      const bool none =
          volume.state == world::VolumeState::Deleted || volume.state == world::VolumeState::Error;
      if (is_aside(volume.id) != stray || none) return;
      Disk& disk = disks_[volume.id];
      disk.full = false;
      if (stray) return;
      const auto role = volume.tags.find("spotter:role");
      any = any || carries_discovery_tag(volume) ||
            (role != volume.tags.end() && role->second == "verified");
      if (disk.content == Disk::Content::Foreign || disk.content == Disk::Content::HalfMade) {
        disk.content = Disk::Content::Blank;
      }
    });
  }
  // Seed 240091, with a fence: a move copied the snapshot that was taken of the full volume, and
  // the space that was freed by hand was gone. A person who frees space sees to the snapshots, too.
  for (auto& [id, image] : images_) image.full = false;
  auto& cloud = const_cast<world::Cloud&>(world_.cloud());
  std::vector<VolumeId> stuck;
  std::vector<VolumeId> useless;
  world_.cloud().volumes.each([&](const world::Volume& volume) {
    const auto& it = volume.attachment;
    if (it && it->state == world::AttachmentState::Detaching) stuck.push_back(volume.id);
    if (volume.state == world::VolumeState::Error) useless.push_back(volume.id);
  });
  for (const VolumeId& id : useless) (void)world_.volumes(now_).remove(id);
  for (const VolumeId& id : stuck) (void)world_.volumes(now_).detach({id, {}, {}, true});
  for (const VolumeId& stray : strays_) {
    (void)world::delete_tags(cloud, {stray.str()}, {{kDiscoveryKey, std::nullopt}});
  }
  std::vector<std::string> untagged;
  world_.cloud().volumes.each([&](const world::Volume& volume) {
    const bool there = volume.state != world::VolumeState::Deleted;
    if (there && !is_aside(volume.id)) untagged.push_back(volume.id.str());
  });
  for (const std::string& id : untagged) {
    (void)world::create_tags(cloud, {id}, {{"spotter:format", "blank"}});
  }
  world_.cloud().snapshots.each([&](const world::Snapshot& snapshot) {
    if (snapshot.id == source_ || namesake_snapshots_.count(snapshot.id)) return;
    any = any || snapshot.state == world::SnapshotState::Pending ||
          snapshot.state == world::SnapshotState::Completed;
  });
  if (any) return;
  leave_behind();
  make_volume(world_.settings().zones.front(), true);
}

}  // namespace spotter::simulate
