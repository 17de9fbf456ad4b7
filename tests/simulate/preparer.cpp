// `spotter prepare` beside the job: a machine of its own, whose agent fills the job's volume and
// releases it. It may come before the fleet's first instance, or between two of them.
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::minutes;
using std::chrono::seconds;

void Simulation::choose_preparer() {
  world::Random dice(verdict_.seed * 7919 + 7);
  if (on_volume() && dice.below(4) == 0) to_prepare_ = 1 + static_cast<int>(dice.below(3));
  // Before the job is launched, if often too shortly; or when one of its machines is lost, while
  // the next one looks for the volume.
  const bool before = to_prepare_ > 0 && dice.below(2) == 0;
  prepared_from_ = before ? now_ : decide::kNever;
  if (before) launched_after_ = dice.within({seconds(1), minutes(10)});
}

const decide::Policy& Simulation::policy_of(const Host& host) const {
  return preparers_.count(host.id) ? to_fill_ : policy_;
}

// agent/service/service.cpp: policy_to_fill().
void Simulation::expect_preparer() {
  if (to_prepare_ == 0) return;
  to_fill_ = policy_;
  to_fill_.foreground = to_fill_.fills = true;
  to_fill_.gpus = 0;
  to_fill_.data = 0;
  to_fill_.blocked_retry = Duration{0};
  if (prepared_from_ != decide::kNever) at_time(prepared_from_, [this] { launch_preparer(); });
}

void Simulation::prepare_after_loss() {
  if (to_prepare_ > 0 && prepared_from_ == decide::kNever) launch_preparer();
}

// In the volume's zone, as a person would; in vain where that has no capacity.
void Simulation::launch_preparer() {
  --to_prepare_;
  Zone zone = world_.settings().zones.front();
  world_.cloud().volumes.each([&](const world::Volume& volume) {
    const bool there = volume.state != world::VolumeState::Deleted;
    if (there && volume.tags.count(kDiscoveryKey) != 0) zone = volume.zone;
  });
  world::LaunchInstance request;
  request.option = {.type = "t3.small", .zone = zone};
  const auto launched = world_.instances(now_).launch(request);
  if (!launched) return;
  preparers_.insert(launched->id);
  say(launched->id.view(), "is to prepare the volume");
}

// Its machine ends with it, as that of `spotter prepare` on another machine does. In vain, it is
// tried again.
void Simulation::preparer_left(const Host& host) {
  if (!preparers_.count(host.id)) return;
  if (!host.agent.state.facts.exit.filled && to_prepare_ > 0)
    at(random_.within({minutes(1), minutes(10)}), [this] { launch_preparer(); });
  at(seconds(1), [this, id = host.id] {
    (void)world_.instances(now_).shut_down(id, "Client.InstanceInitiatedShutdown");
  });
}

decide::Happening Simulation::fill(Host& host, const decide::FillVolume& command) {
  if (!host.mounted || host.mounted != command.volume || host.read_only)
    return failure(decide::Failure::MountFailed, "nothing is mounted");
  Disk& disk = disks_[host.mounted];
  if (disk.full || host.shut_down) return failure(decide::Failure::MountFailed, "no space left");
  judge_write(host, "what was to be prepared");
  judge_first_write(host);
  disk.filled = true;
  return decide::VolumeFilled{};
}

// From now on the user counts on it.
void Simulation::judge_prepared(const VolumeId& volume) {
  if (!disks_[volume].filled) broken("marked as prepared, and it is not");
  prepared_ = true;
}

void Simulation::judge_filled(const char* what) {
  bool any = !prepared_;
  world_.cloud().volumes.each([&](const world::Volume& volume) {
    any = any || (volume.state != world::VolumeState::Deleted && disks_[volume.id].filled);
  });
  if (!any) broken(std::string(what) + ": what was prepared is lost");
}

}  // namespace spotter::simulate
