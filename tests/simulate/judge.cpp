// What must hold in the world, whatever happened (shared design: "What must hold, always").
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

namespace {

bool exists(const world::Volume& volume) { return volume.state != world::VolumeState::Deleted; }

bool has(const world::Tags& tags, const char* key, const char* value) {
  const auto found = tags.find(key);
  return found != tags.end() && found->second == value;
}

// The volume that users and agents take for the job's.
bool is_current(const world::Volume& volume) {
  return exists(volume) && has(volume.tags, kDiscoveryKey, kDiscoveryValue);
}

}  // namespace

void Simulation::broken(const std::string& words) {
  if (!verdict_.broken.empty()) return;
  verdict_.broken = words;
  say("judge", "BROKEN: " + words);
}

void Simulation::judge_start(const Host& host) {
  int running = 0;
  for (const auto& [id, other] : hosts_) {
    running += other.alive && other.trainer.life == Trainer::Life::Running;
  }
  if (running > 1) broken("two trainers write one history");
  if (disks_[host.mounted].newest() < durable_) {
    broken("a durable checkpoint is lost: step " + std::to_string(durable_) +
           " was, the trainer resumes at " + std::to_string(disks_[host.mounted].newest()));
  }
  judge_write(host, "a trainer");
}

void Simulation::judge_write(const Host& host, const char* what) {
  const world::Volume* volume = world_.cloud().volumes.find(host.mounted);
  const bool held =
      volume && exists(*volume) && volume->attachment && volume->attachment->instance == host.id;
  if (!held) return broken(std::string(what) + " is written to a volume that is not attached here");
  if (!is_current(*volume)) {
    return broken(std::string(what) + " is written to a volume that is not the job's");
  }
  world_.cloud().volumes.each([&](const world::Volume& other) {
    if (other.id != volume->id && is_current(other)) {
      broken(std::string(what) + " is written to " + volume->id.str() + " while " + other.id.str() +
             " is the job's volume, too");
    }
  });
}

void Simulation::judge_removal(const VolumeId& removed) {
  const world::Volume& gone = *world_.cloud().volumes.find(removed);
  const Disk& disk = disks_[removed];
  bool verified = false;
  std::int64_t best = -1;
  bool result = false;
  world_.cloud().volumes.each([&](const world::Volume& other) {
    if (!exists(other) || other.id == removed) return;
    best = std::max(best, disks_[other.id].newest());
    result = result || disks_[other.id].result;
    const bool proven = has(other.tags, "spotter:role", "verified") || is_current(other);
    verified = verified || (proven && disks_[other.id].newest() >= disk.newest());
  });
  if (disk.result && !result) broken("the result was deleted");
  if (best < durable_) {
    broken("step " + std::to_string(durable_) + " was durable; the newest left is " +
           std::to_string(best));
  }
  const bool original = has(gone.tags, kDiscoveryKey, kDiscoveryValue);
  if (original && !verified) broken("the original was deleted without a verified copy");
}

void Simulation::judge_cancel(const InstanceId& caller) {
  if (hosts_[caller].agent.state.facts.surrender != decide::Surrender::None) return;
  bool result = false;
  world_.cloud().volumes.each([&](const world::Volume& volume) {
    result = result || (exists(volume) && disks_[volume.id].result);
  });
  if (!result) broken("the fleet is cancelled, and there is no result");
}

void Simulation::judge_end() {
  int volumes = 0;
  int snapshots = 0;
  bool result = false;
  std::string names;
  world_.cloud().volumes.each([&](const world::Volume& volume) {
    if (!exists(volume)) return;
    ++volumes;
    names += " " + volume.id.str();
    result = result || disks_[volume.id].result;
  });
  world_.cloud().snapshots.each([&](const world::Snapshot& snapshot) {
    if (snapshot.state == world::SnapshotState::Deleted) return;
    ++snapshots;
    names += " " + snapshot.id.str();
  });
  const world::FleetRequest* fleet = world_.cloud().fleets.find(fleet_.id);
  verdict_.outcome = fleet->state == world::FleetState::Cancelled ? "finished" : "given up";
  if (verdict_.outcome == "given up") {
    if (starts_in_vain_ < policy_.attempts_without_progress) {
      broken("given up though the job had not failed often enough");
    }
    return;
  }
  if (!result) broken("the end without a result");
  if (volumes != 1 || snapshots != 0) broken("something is left behind:" + names);
}

}  // namespace spotter::simulate
