#include "tests/simulate/simulation.hpp"

#include <algorithm>
#include <cstdio>

namespace spotter::simulate {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using Milliseconds = std::chrono::milliseconds;

constexpr int kMostAtOnce = 10'000;  // happenings in one millisecond

Simulation::Simulation(std::uint64_t seed, bool record, Choice choice)
    : record_(record),
      choice_(std::move(choice)),
      random_(seed * 7919 + 1),
      dice_(seed * 7919 + 2),
      luck_(seed),
      world_({}, seed) {
  verdict_.seed = seed;
  choose_menu();
  world_.settings().record_history = false;
  world_.settings().consistency_lag = menu_.lag;
  calm_ = now_ + hours(3);
  limit_ = calm_ + hours(9);
}

void Simulation::at(Duration later, Action action) {
  agenda_.emplace(now_ + later, std::move(action));
}

Simulation::Simulation(std::uint64_t seed, bool record, Script script)
    : Simulation(seed, record, Choice{}) {
  random_ = world::Random(seed * 7919 + 1);  // however many dice a menu takes
  menu_ = Menu{};
  world_.settings().consistency_lag = menu_.lag;
  work_ = script.work;
  policy_.has_code = script.has_code;
  policy_.attempts_without_progress = script.attempts;
  script_ = std::move(script);
  std::vector<Zone>& zones = world_.settings().zones;
  zones.resize(script_->replacement == Script::Replacement::SameZone ? 1 : 2);
  if (script_->replacement == Script::Replacement::OtherZone) {
    world_.set_capacity(zones.back(), 0, now_);
  }
}

Duration Simulation::between(Duration least, Duration most) {
  return random_.within({least, most});
}

bool Simulation::chance(double share) {
  return static_cast<double>(random_.below(1'000'000)) < share * 1e6;
}

void Simulation::say(const std::string& who, const std::string& what) {
  if (!record_) return;
  char clock[32];
  std::snprintf(clock, sizeof clock, "%10.3f ",
                std::chrono::duration<double>(now_ - kBegin).count());
  transcript_.push_back(clock + who.substr(0, 9) + "  " + what);
}

void Simulation::drain() {
  for (auto occurrences = world_.advance(now_); !occurrences.empty();
       occurrences = world_.advance(now_)) {
    for (const world::Occurrence& it : occurrences) {
      std::visit([this](const auto& what) { on(what); }, it);
    }
  }
}

void Simulation::submit_job() {
  world::CreateVolume volume;
  volume.zone = world_.settings().zones.front();
  volume.gibibytes = 10;
  volume.type = "gp3";
  volume.tags = {{kDiscoveryKey, kDiscoveryValue}, {"spotter:format", "blank"}};
  (void)world_.volumes(now_).create(volume);
  world::FleetRequest request;
  request.fleet.kind = FleetKind::SpotFleet;
  request.allocation = "capacityOptimized";
  request.terminate_on_cancel = true;
  for (const Zone& zone : world_.settings().zones) {
    request.options.push_back({.type = "p3.2xlarge", .zone = zone});
  }
  const auto created = world_.fleets(now_).create(request);
  if (created) fleet_ = created->fleet;
}

bool Simulation::is_over() const {
  const world::FleetRequest* fleet = world_.cloud().fleets.find(fleet_.id);
  if (!fleet) return false;
  const bool ended = fleet->state == world::FleetState::Cancelled;
  const bool at_rest = fleet->target == 0 && fleet->state == world::FleetState::Active;
  if (!ended && !at_rest) return false;
  bool quiet = true;
  world_.cloud().instances.each([&](const world::Instance& it) {
    quiet = quiet && it.state == world::InstanceState::Terminated;
  });
  return quiet;
}

Verdict Simulation::run() {
  const Time began = now_;
  submit_job();
  drain();
  if (!script_) at(minutes(1), [this] { strike(); });  // the user waits until the volume is there
  int at_once = 0;
  while (verdict_.broken.empty() && !is_over()) {
    const std::optional<Time> cloud = world_.next();
    const Time own = agenda_.empty() ? decide::kNever : agenda_.begin()->first;
    const Time next = std::min(own, cloud.value_or(decide::kNever));
    if (next > limit_) {
      broken("the job does not end");
      break;
    }
    at_once = next > now_ ? 0 : at_once + 1;
    if (at_once > kMostAtOnce) broken("time stands still");
    now_ = std::max(now_, next);
    if (own <= cloud.value_or(decide::kNever)) {
      const Action action = std::move(agenda_.begin()->second);
      agenda_.erase(agenda_.begin());
      action();
    }
    drain();
  }
  verdict_.took = now_ - began;
  now_ += minutes(2);  // what is being detached or deleted settles
  drain();
  if (verdict_.broken.empty()) judge_end();
  return verdict_;
}

void Simulation::on(const world::InstanceStarted& it) {
  Host& host = hosts_[it.id];
  const std::uint64_t before = host.agent.run;
  host = Host{};
  host.id = it.id;
  host.zone = it.zone;
  host.type = it.type;
  host.alive = true;
  host.boot = ++numbers_;
  host.booted = now_;
  host.agent.run = before;
  ++verdict_.instances;
  say(it.id.str(), "boots in " + it.zone.str());
  world_.cloud().volumes.each([&](const world::Volume& volume) {  // of a stopped instance
    const auto& attachment = volume.attachment;
    if (attachment && attachment->instance == it.id && attachment->present) {
      host.devices[volume.id] = now_;
    }
  });
  at(boots(), [this, id = it.id, boot = host.boot] {
    Host& its = hosts_[id];
    if (its.alive && its.boot == boot) start_agent(id);
  });
}

void Simulation::on(const world::InstanceShuttingDown& it) {
  Host& host = hosts_[it.id];
  say(it.id.str(), "is asked to shut down");
  sense(host, decide::StopRequested{now_ + seconds(2)});
}

void Simulation::on(const world::InstanceKilled& it) {
  Host& host = hosts_[it.id];
  say(it.id.str(), "is dead");
  if (host.trainer.life == Trainer::Life::Running) trainer_dies(host);
  kill_agent(host);
  move_capacity(host.zone);
  host.alive = false;
  if (host.mounted) world_.set_mounted(host.mounted, false, now_);
  host.mounted = {};
  host.devices.clear();
}

void Simulation::on(const world::VolumeMade& it) {
  disks_[it.id] = it.from ? images_[*it.from] : Disk{};
  say(it.id.str(), "made" + (it.from ? " from " + it.from->str() : std::string()));
}

void Simulation::on(const world::VolumeRemoved& it) {
  say(it.id.str(), "deleted");
  judge_removal(it.id);
}

void Simulation::on(const world::SnapshotTaken& it) {
  images_[it.id] = disks_[it.volume];
  say(it.id.str(), "taken of " + it.volume.str());
}

void Simulation::on(const world::DeviceAttached& it) {
  Host& host = hosts_[it.instance];
  if (!host.alive) return;
  const bool late = menu_.late_devices && fires(0.1);
  host.devices[it.volume] = now_ + (late ? between(seconds(20), seconds(90))
                                         : between(Milliseconds(50), Milliseconds(1500)));
  say(it.volume.str(), "attached to " + it.instance.str());
}

void Simulation::on(const world::DeviceDetached& it) {
  Host& host = hosts_[it.instance];
  host.devices.erase(it.volume);
  say(it.volume.str(), "detached from " + it.instance.str());
  if (host.alive && host.mounted == it.volume) broken("a mounted volume was detached");
}

}  // namespace spotter::simulate
