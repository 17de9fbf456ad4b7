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
      bus_(seed * 7919 + 5),
      shelf_(seed * 7919 + 6),
      others_(seed * 7919 + 8),
      tags_(seed * 7919 + 9),
      fence_dice_(seed * 7919 + 10),
      left_dice_(seed * 7919 + 11),
      luck_(seed),
      world_({}, seed) {
  verdict_.seed = seed;
  choose_menu();
  world_.settings().record_history = false;
  world_.settings().consistency_lag = menu_.lag;
  limit_ = now_ + hours(12);
}

void Simulation::at(Duration later, Action action) { at_time(now_ + later, std::move(action)); }

void Simulation::at_time(Time when, Action action) {
  agenda_.push_back({when, ++numbers_, std::move(action)});
  std::push_heap(agenda_.begin(), agenda_.end());
}

Simulation::Simulation(std::uint64_t seed, bool record, Script script)
    : Simulation(seed, record, Choice{}) {
  random_ = world::Random(seed * 7919 + 1);  // however many dice a menu takes
  menu_ = Menu{};
  world_.settings().fleet_tags = {};
  world_.settings().consistency_lag = menu_.lag;
  work_ = script.work;
  limit_ = now_ + std::max<Duration>(hours(12), 2 * work_.steps * work_.step_takes);
  policy_ = decide::Policy{};  // nor the limits that a menu may set
  policy_.has_code = script.has_code;
  policy_.attempts_without_progress = script.attempts;
  policy_.gpus = script.gpus;
  policy_.data = script.data ? 1 : 0;
  policy_.fence = script.fence;
  share_ = Share{};
  share_.once = policy_.foreground = script.once;
  if (script.share) policy_.storage = decide::StorageKind::Share;
  if (script.bucket) choose_bucket();
  share_.once = policy_.foreground = script.once;
  to_prepare_ = script.prepare ? 1 : 0;
  prepared_from_ = now_;
  launched_after_ = seconds(script.prepare ? 45 : 0);
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

void Simulation::write(std::string_view who, const std::string& what) {
  char clock[32];
  std::snprintf(clock, sizeof clock, "%10.3f ",
                std::chrono::duration<double>(now_ - kBegin).count());
  transcript_.push_back(clock + std::string(who.substr(0, 9)) + "  " + what);
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
  if (on_volume()) {
    make_volume(world_.settings().zones.front(), !menu_.has(Fault::UntaggedBlank));
  }
  if (policy_.data > 0) make_source();
  const bool many = on_share() && menu_.fleet > 1;  // which a share is refused to
  needs_person_ = menu_.has(Fault::UntaggedBlank) || menu_.has(Fault::ForeignDisk) || many;
  if (launched_after_ == Duration{0}) return request_fleet();
  at(launched_after_, [this] { request_fleet(); });
}

void Simulation::request_fleet() {
  world::FleetRequest request;
  request.fleet.kind = FleetKind::SpotFleet;
  request.allocation = request.on_demand_allocation = "capacity-optimized";
  request.terminate_on_cancel = true;
  request.target = menu_.fleet;
  for (const Zone& zone : world_.settings().zones) {
    request.options.push_back({.type = "p3.2xlarge", .zone = zone});
  }
  const auto created = world_.fleets(now_).create(request);
  if (created) fleet_ = created->fleet;
}

// Cancelled and gone; or at rest, as the job's own policy or limits want it. A job that waits for
// a person in vain is no end: somebody comes.
bool Simulation::is_over() {
  const world::FleetRequest* fleet = world_.cloud().fleets.find(fleet_.id);
  if (!fleet) return false;
  const bool ended = fleet->state == world::FleetState::Cancelled;
  const bool at_rest = fleet->target == 0 && fleet->state == world::FleetState::Active;
  const bool held = policy_.then == GiveUp::Hold && surrender_ != decide::Surrender::None;
  if (held && surrender_ != decide::Surrender::BlockedTooLong) return true;
  if (held) come_back();
  if (!ended && !at_rest) return false;
  bool quiet = true;
  world_.cloud().instances.each([&](const world::Instance& it) {
    quiet = quiet && (it.state == world::InstanceState::Terminated ||
                      it.state == world::InstanceState::Stopped);
  });
  if (quiet && !ended && surrender_ == decide::Surrender::BlockedTooLong) {
    come_back();
    return false;
  }
  return quiet;
}

Verdict Simulation::run() {
  const Time began = now_;
  submit_job();
  expect_preparer();
  drain();
  if (!script_ && calm_ > now_) {
    at(minutes(1), [this] { inject_later(); });  // the user waits until the volume is there
    at_time(calm_, [this] { calm(); });
  }
  int at_once = 0;
  while (verdict_.broken.empty() && verdict_.outcome.empty() && !is_over()) {
    const std::optional<Time> cloud = world_.next();
    const Time own = agenda_.empty() ? decide::kNever : agenda_.front().at;
    const Time next = std::min(own, cloud.value_or(decide::kNever));
    if (next > limit_) {
      broken("the job does not end");
      break;
    }
    at_once = next > now_ ? 0 : at_once + 1;
    if (at_once > kMostAtOnce) broken("time stands still");
    now_ = std::max(now_, next);
    if (own <= cloud.value_or(decide::kNever)) {
      std::pop_heap(agenda_.begin(), agenda_.end());
      const Action action = std::move(agenda_.back().action);
      agenda_.pop_back();
      action();
    }
    drain();
  }
  verdict_.took = now_ - began;
  now_ += minutes(2);  // what is being detached or deleted settles
  drain();
  if (verdict_.broken.empty() && verdict_.outcome.empty()) judge_end();
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
  host.booted = now_;
  host.boot = ++numbers_;
  host.agent.run = before;
  if (share_.folder) host.mounted = in_bucket() ? folder_of(it.id) : kShare;
  boot_gpus(host);
  ++verdict_.instances;
  say(it.id.view(), "boots in ", it.zone);
  world_.cloud().volumes.each([&](const world::Volume& volume) {  // of a stopped instance
    const auto& attachment = volume.attachment;
    if (attachment && attachment->instance == it.id && attachment->present) {
      host.nodes.push_back({volume.id, now_, next_path(host)});
    }
  });
  at(boots(), [this, id = it.id, boot = host.boot] {
    Host& its = hosts_[id];
    if (its.alive && its.boot == boot) start_agent(id);
  });
}

void Simulation::on(const world::InstanceShuttingDown& it) {
  Host& host = hosts_[it.id];
  say(it.id.view(), "is asked to shut down");
  sense(host, decide::StopRequested{now_ + seconds(2)});
}

void Simulation::on(const world::InstanceKilled& it) {
  Host& host = hosts_[it.id];
  say(it.id.view(), "is dead");
  if (host.trainer.state == Trainer::State::Running) trainer_dies(host);
  kill_agent(host);
  move_capacity(host.zone);
  host.alive = false;
  if (!preparers_.count(it.id)) {
    instance_time_ += now_ - host.booted;
    prepare_after_loss();
  }
  if (host.mounted && on_volume()) {
    disks_[host.mounted].dirty = !host.read_only;
    world_.set_mounted(host.mounted, false, now_);
  }
  if (host.data) world_.set_mounted(host.data, false, now_);
  host.mounted = host.data = {};
  host.nodes.clear();
}

void Simulation::on(const world::VolumeMade& it) {
  if (it.from) {
    disks_[it.id] = images_[*it.from];
  } else if (strays_.empty() && menu_.has(Fault::ForeignDisk) && disks_.empty()) {
    disks_[it.id].content = Disk::Content::Foreign;
  }
  say(it.id.view(), "made", it.from ? " from " : "", it.from ? it.from->view() : "");
}

void Simulation::on(const world::VolumeRemoved& it) {
  say(it.id.view(), "deleted");
  if (namesakes_.count(it.id)) return;
  judge_removal(it.id);
  const bool original = world_.cloud().volumes.find(it.id)->tags.count(kDiscoveryKey) > 0;
  if (original && now(Fault::Restored)) restore_later(it.id, false);
}

void Simulation::on(const world::SnapshotTaken& it) {
  images_[it.id] = disks_[it.volume];
  say(it.id.view(), "taken of ", it.volume);
}

void Simulation::on(const world::SnapshotRemoved& it) {
  say(it.id.view(), "deleted");
  if (it.id == source_) broken("the user's snapshot is deleted");
  judge_durable("a snapshot is deleted");
}

// Device names follow the order in which the disks came, or no order at all.
Device Simulation::next_path(const Host& host) {
  std::uint64_t number = host.nodes.size() + 1;
  if (now(Fault::OtherName)) number = 1 + random_.below(26);
  for (;; ++number) {
    const Device path("/dev/nvme" + std::to_string(number) + "n1");
    if (!host.node_at(path)) return path;
  }
}

void Simulation::on(const world::DeviceAttached& it) {
  Host& host = hosts_[it.instance];
  if (!host.alive) return;
  const bool late = menu_.has(Fault::LateDevice) && fires(0.1);
  const Time since = now_ + (late ? between(seconds(20), seconds(90))
                                  : between(Milliseconds(50), Milliseconds(1500)));
  host.nodes.push_back({it.volume, since, next_path(host)});
  say(it.volume.view(), "attached to ", it.instance);
}

void Simulation::on(const world::DeviceDetached& it) {
  Host& host = hosts_[it.instance];
  std::erase_if(host.nodes, [&](const Node& node) { return node.volume == it.volume; });
  say(it.volume.view(), "detached from ", it.instance);
  const bool mounted = host.mounted == it.volume || host.data == it.volume;
  if (host.alive && mounted) broken("a mounted volume was detached");
}

}  // namespace spotter::simulate
