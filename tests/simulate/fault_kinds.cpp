// The faults of instances, EC2 and disks. A fault of EC2 is the world's fault of that name: the
// emulator deals the same to real programs.
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::minutes;
using std::chrono::seconds;

namespace {

std::string text(Duration duration) { return std::to_string(duration.count()) + "ms"; }

// The calls that agents make (agent/service/act/cloud.cpp, fleet.cpp, survey.cpp).
constexpr const char* kActions[] = {
    "DescribeVolumes", "DescribeSnapshots", "DescribeInstances",       "AttachVolume",
    "DetachVolume",    "CreateTags",        "CreateSnapshot",          "CreateVolume",
    "DeleteVolume",    "DeleteSnapshot",    "CancelSpotFleetRequests", "ModifySpotFleetRequest"};

constexpr const char* kMetadata[] = {"down", "401",   "403",     "429",
                                     "500",  "empty", "garbage", "half"};

}  // namespace

void Simulation::interrupt(Host& host, InterruptionAction action, Duration lead,
                           const char* words) {
  if (!world_.interrupt(host.id, action, lead, now_)) return;
  say(host.id.view(), words);
  look_at_metadata(host, luck_.up_to(seconds(1)));
}

void Simulation::inject_instance_fault(Fault fault, Host& host) {
  const auto terminate = InterruptionAction::Terminate;
  if (fault == Fault::Notice) interrupt(host, terminate, seconds(120), "NOTICE: 120 s");
  if (fault == Fault::ShortNotice) interrupt(host, terminate, seconds(5), "NOTICE: 5 s");
  if (fault == Fault::Stop) {
    interrupt(host, InterruptionAction::Stop, seconds(120), "NOTICE: stop in 120 s");
  }
  if (fault == Fault::Hibernate) interrupt(host, InterruptionAction::Hibernate, {}, "HIBERNATES");
  if (fault == Fault::Kill) {
    say(host.id.view(), "KILLED");
    (void)world_.kill(host.id, now_);
  }
  if (fault == Fault::Withdrawal && world_.interrupt(host.id, terminate, seconds(120), now_)) {
    say(host.id.view(), "NOTICE, to be withdrawn");
    look_at_metadata(host, luck_.up_to(seconds(1)));
    at(luck_.up_to(seconds(110)), [this, id = host.id] {
      if (!world_.withdraw(id, now_)) return;
      say(id.view(), "notice withdrawn");
      look_at_metadata(hosts_[id], seconds(1));
    });
  }
  if (fault == Fault::FailedTermination) {
    say(host.id.view(), "a termination failed");
    inject_in_world("failed-termination", {{"instance", host.id.str()}});
    look_at_metadata(host, luck_.up_to(seconds(1)));
  }
  if (fault == Fault::Rebalance && world_.rebalance(host.id, now_)) {
    say(host.id.view(), "rebalance recommended");
    sense(host, decide::RebalanceRecommended{});
  }
  if (fault == Fault::GpuLost) lose_gpu(host);
  if (fault == Fault::OthersStop) stop_by_others(host);
  if (fault == Fault::Paused) {
    say(host.id.view(), "STANDS STILL");
    const Duration lasts = luck_.within({seconds(5), minutes(luck_.below(2) ? 1 : 20)});
    host.paused_until = std::max(host.paused_until, now_ + lasts);
  }
  if (fault == Fault::AgentKill && host.agent.alive) {
    kill_agent(host);
    restart_later(host);
  }
  // A trainer that reports no steps, or reported none before the ledger could be written, looks
  // like one that hangs: the limit on hours is for that.
  const auto& account = disks_[host.trainer.volume].ledger;
  const bool lost = on_share() && host.shut_down;  // nor where nobody can read it
  const bool speaks = !work_.mute && account && account->speaks && !lost;
  if (fault == Fault::Hangs && host.trainer.state == Trainer::State::Running && speaks) {
    say(host.id.view(), "trainer hangs");
    host.trainer.hung = true;
  }
}

void Simulation::close_zones(Fault fault) {
  const auto& zones = world_.settings().zones;
  const std::uint64_t chosen = luck_.below(zones.size());
  const Duration lasts = luck_.within({minutes(1), minutes(20)});
  for (std::size_t i = 0; i < zones.size(); ++i) {
    if (fault == Fault::ZoneCloses && i != chosen) continue;
    say("chance", zones[i], " has no capacity");
    world_.set_capacity(zones[i], 0, now_);
    at(lasts, [this, zone = zones[i]] { world_.set_capacity(zone, std::nullopt, now_); });
  }
}

void Simulation::inject_cloud_fault(Fault fault) {
  const auto lasts = [&](Duration most) { return text(luck_.within({seconds(20), most})); };
  const auto name = [](const char* words) { return std::string(words); };
  switch (fault) {
    case Fault::ZoneCloses:
    case Fault::AllZonesClose:
      return close_zones(fault);
    case Fault::MetadataBroken:
      return inject_in_world("imds", {{"mode", name(kMetadata[luck_.below(std::size(kMetadata))])},
                                      {"for", lasts(minutes(5))}});
    case Fault::MetadataSlow:
      return inject_in_world("imds",
                             {{"mode", "slow"}, {"for", lasts(minutes(5))}, {"delay", "8s"}});
    case Fault::ClockStep:
      world_.settings().origin += luck_.within({-minutes(600), minutes(600)});
      return;
    case Fault::Throttled:
      return inject_in_world("throttle", {{"for", lasts(minutes(8))}});
    case Fault::Denied:
    case Fault::DryRun: {
      const std::string action = kActions[luck_.below(std::size(kActions))];
      const bool dry = fault == Fault::DryRun;
      needs_person_ = true;
      say("user", "nobody may ", action);
      inject_in_world("deny", {{"action", action},
                               {"code", dry ? "DryRunOperation" : "UnauthorizedOperation"}});
      at(luck_.within({seconds(20), luck_.below(3) ? minutes(10) : minutes(80)}), [this, action] {
        inject_in_world("deny", {{"action", action}, {"on", "false"}});
      });
      return;
    }
    case Fault::AttachHangs:
      return inject_in_world("attach-hangs", {{"for", "20s"}});
    case Fault::AttachBusy:
      return inject_in_world("attach-busy", {{"for", lasts(minutes(3))}});
    case Fault::DetachHangs:
      needs_person_ = true;
      return inject_in_world("detach-hangs", {{"for", "20s"}});
    case Fault::DeviceAbsent:
      return inject_in_world("device-absent", {{"count", std::to_string(1 + luck_.below(2))}});
    case Fault::SlowSnapshots:
      return inject_in_world("snapshot-takes", {{"time", "300s"}});
    case Fault::HourSnapshots:
      return inject_in_world("snapshot-takes", {{"time", "3600s"}});
    case Fault::SnapshotError:
      return inject_in_world("snapshot-fails", {{"count", "1"}});
    case Fault::SnapshotRecoverable:
      return inject_in_world("snapshot-recoverable", {{"count", "1"}});
    case Fault::VolumeError:
      return inject_in_world("volume-fails", {{"count", "1"}});
    case Fault::KeyForbidden:
      needs_person_ = true;
      inject_in_world("key-forbidden", {{"on", "true"}});
      return at(luck_.within({seconds(20), minutes(80)}), [this] {
        inject_in_world("key-forbidden", {{"on", "false"}});
      });
    case Fault::GitUnreachable:
      needs_person_ = true;
      git_back_ = std::max(git_back_, now_ + luck_.within({seconds(20), minutes(20)}));
      return say("chance", "git is out of reach");
    case Fault::RevisionGone:
      needs_person_ = true;
      revision_back_ = std::max(revision_back_, now_ + luck_.within({minutes(5), minutes(90)}));
      return say("user", "pushed over the revision");
    default:
      return;
  }
}

// The job's volume, wherever it is: full, or (an I/O error) shut down by its file system.
void Simulation::inject_disk_fault(Fault fault) {
  for (auto& [id, host] : hosts_) {
    if (!host.alive || !host.mounted) continue;
    say(host.mounted.view(), name(fault));
    if (fault == Fault::DiskReadOnly) {
      host.shut_down = host.shut_down || !(on_share() && host.trainer.hung);
      continue;
    }
    needs_person_ = true;
    disks_[host.mounted].full = true;
    at(luck_.within({minutes(1), minutes(90)}), [this, volume = host.mounted] {
      say("user", "made room on ", volume);
      disks_[volume].full = false;
    });
  }
}

// The trainer ends within a second of it.
void Simulation::finish_in_a_notice(Host& host) {
  if (!now(Fault::NoticeAtFinish) || !fires(0.5)) return;
  at(random_.up_to(seconds(2)), [this, id = host.id] {
    const Duration lead = random_.below(2) ? seconds(120) : seconds(5);
    if (!world_.interrupt(id, InterruptionAction::Terminate, lead, now_)) return;
    say(id.view(), "NOTICE while the trainer finishes");
    look_at_metadata(hosts_[id], random_.up_to(seconds(1)));
  });
}

}  // namespace spotter::simulate
