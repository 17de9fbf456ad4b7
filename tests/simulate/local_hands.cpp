// Work on the host, one piece after the other, as act/performer.cpp and act/local.cpp do it.
#include "agent/decide/describe.hpp"
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using decide::EffectFailed;
using decide::Failure;
using decide::Happening;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

EffectFailed failure(Failure kind, const char* detail) {
  EffectFailed failed;
  failed.failure = kind;
  failed.detail = detail;
  return failed;
}

}  // namespace

void Simulation::do_locally(Host& host, const decide::Effect& effect) {
  host.agent.waiting.push_back(effect);
  if (!host.agent.working) begin_work(host);
}

void Simulation::begin_work(Host& host) {
  Agent& agent = host.agent;
  if (agent.waiting.empty()) return;
  agent.working = agent.waiting.front();
  agent.waiting.pop_front();
  agent.work = ++numbers_;
  const decide::Command& command = agent.working->what;
  Duration lasts = takes(host, command);
  bool absent = false;
  if (const auto* it = std::get_if<decide::FindDevice>(&command)) {
    const Duration patience = (agent.working->deadline - now_) * 9 / 10;
    const auto device = host.devices.find(it->volume);
    absent = device == host.devices.end() || device->second > now_ + patience;
    lasts = absent ? patience : std::max(lasts, device->second - now_);
  }
  at(lasts, [this, id = host.id, run = agent.run, number = agent.work, absent] {
    Host* its = agent_of(id, run);
    if (!its || !its->agent.working || its->agent.work != number) return;
    const decide::Command asked = its->agent.working->what;
    const Happening outcome =
        absent ? Happening(failure(Failure::DeviceAbsent, "no device")) : work(*its, asked);
    if (lives_on(*its, Side::AfterEffect, name(asked))) end_work(*its, outcome);
  });
}

Duration Simulation::takes(Host&, const decide::Command& command) {
  const Duration usual = between(milliseconds(20), milliseconds(800));
  if (std::holds_alternative<decide::FetchCode>(command)) return between(seconds(1), seconds(20));
  if (std::holds_alternative<decide::Mount>(command) && chance(0.1)) return seconds(20);
  if (std::holds_alternative<decide::VerifyCheckpoints>(command)) {
    return between(milliseconds(200), seconds(20));
  }
  return usual;
}

void Simulation::end_work(Host& host, Happening what) {
  const decide::EffectId id = host.agent.working->id;
  host.agent.working.reset();
  begin_work(host);
  take(host, {now_, id, std::move(what)});
}

// A child that is killed may have done its work.
void Simulation::abandon(Host& host, decide::EffectId id) {
  Agent& agent = host.agent;
  if (!agent.working || agent.working->id != id) {
    std::erase_if(agent.waiting, [&](const decide::Effect& it) { return it.id == id; });
    EffectFailed given_up = failure(Failure::Abandoned, "given up");
    given_up.unsettled = true;
    return answer_later(host, id, milliseconds(5), given_up);
  }
  if (chance(0.5)) (void)work(host, agent.working->what);
  agent.working.reset();
  answer_later(host, id, milliseconds(5), failure(Failure::Abandoned, "given up"));
  begin_work(host);
}

Happening Simulation::work(Host& host, const decide::Command& command) {
  using namespace decide;
  if (fires(menu_.look_fails)) return failure(Failure::Unavailable, "no memory");
  if (std::holds_alternative<LookAtHost>(command)) {
    HostLooked seen;
    seen.mounted = host.mounted;
    seen.ended = host.trainer.ended;
    using Life = simulate::Trainer::Life;
    if (host.trainer.life == Life::Running) seen.trainer = HostLooked::Trainer::Running;
    if (host.trainer.life == Life::Ended) seen.trainer = HostLooked::Trainer::Ended;
    host.agent.watches_trainer = host.trainer.life == Life::Running;
    return seen;
  }
  if (const auto* it = std::get_if<FindDevice>(&command)) {
    if (!host.devices.count(it->volume)) return failure(Failure::DeviceAbsent, "no device");
    return DeviceFound{Device(it->volume.view())};
  }
  if (const auto* it = std::get_if<InspectDisk>(&command)) {
    const VolumeId volume(it->device.view());
    if (!host.devices.count(volume)) return failure(Failure::DeviceAbsent, "the device is gone");
    return DiskInspected{disks_[volume].blank, !disks_[volume].blank, {}};
  }
  if (const auto* it = std::get_if<MakeFilesystem>(&command)) {
    const VolumeId volume(it->device.view());
    if (!host.devices.count(volume)) return failure(Failure::DeviceAbsent, "the device is gone");
    if (!disks_[volume].blank) return failure(Failure::DiskNotBlank, "not blank");
    disks_[volume].blank = false;
    return FilesystemMade{};
  }
  if (const auto* it = std::get_if<decide::Mount>(&command)) return mount(host, *it);
  if (std::holds_alternative<Unmount>(command)) {
    if (host.trainer.life == simulate::Trainer::Life::Running && host.mounted) {
      return failure(Failure::Busy, "target is busy");
    }
    sync(host);
    if (host.mounted) world_.set_mounted(host.mounted, false, now_);
    host.mounted = {};
    return Unmounted{};
  }
  if (std::holds_alternative<FetchCode>(command)) {
    if (fires(menu_.look_fails)) return failure(Failure::CodeUnreachable, "git");
    return CodeFetched{};
  }
  if (std::holds_alternative<StartTrainer>(command)) return start_trainer(host);
  if (!host.mounted) return failure(Failure::MountFailed, "nothing is mounted");
  Disk& disk = disks_[host.mounted];
  if (std::holds_alternative<ReadLedger>(command)) {
    return LedgerRead{disk.ledger.value_or(Ledger{})};
  }
  if (const auto* it = std::get_if<WriteLedger>(&command)) {
    if (host.read_only) return failure(Failure::MountFailed, "read-only file system");
    judge_write(host, "the account");
    disk.ledger = it->ledger;
    return LedgerWritten{};
  }
  if (std::holds_alternative<SyncStorage>(command)) {
    sync(host);
    return StorageSynced{};
  }
  CheckpointsVerified seen;
  if (disk.newest() >= 0) seen.newest = disk.newest();
  const auto& verify = std::get<VerifyCheckpoints>(command);
  if (!verify.read_only) {
    seen.torn = static_cast<std::uint32_t>(
        std::erase_if(disk.checkpoints, [](const Checkpoint& it) { return it.torn; }));
  }
  return seen;
}

Happening Simulation::mount(Host& host, const decide::Mount& command) {
  const VolumeId volume(command.device.view());
  if (!host.devices.count(volume)) return failure(Failure::DeviceAbsent, "the device is gone");
  if (host.mounted && host.mounted != volume) return failure(Failure::Busy, "another is mounted");
  host.mounted = volume;
  // Mounted already: read-only is remounted, writable stays so (act/host/mount.cpp).
  host.read_only = command.read_only;
  world_.set_mounted(volume, true, now_);
  if (!host.read_only) {
    judge_write(host, "a log");
    judge_first_write(host);
  }
  return decide::Mounted{};
}

// A checkpoint was synced by its trainer. Who writes its result need not do so.
void Simulation::sync(Host& host) {
  if (!host.mounted || host.trainer.volume != host.mounted) return;
  Disk& disk = disks_[host.mounted];
  disk.result = disk.result || std::exchange(host.trainer.result_unsynced, false);
}

Happening Simulation::start_trainer(Host& host) {
  Trainer& trainer = host.trainer;
  if (trainer.life == Trainer::Life::Running || !host.mounted || host.read_only) {
    return failure(Failure::TrainerUnstartable, "it runs already, or has no place to write");
  }
  trainer = Trainer{};
  trainer.life = Trainer::Life::Running;
  trainer.volume = host.mounted;
  trainer.run = ++numbers_;
  host.agent.watches_trainer = true;
  judge_start(host);
  ++starts_in_vain_;
  trainer.step = std::max<std::int64_t>(0, disks_[host.mounted].newest());
  say(host.id.str(),
      "trainer resumes at step " + std::to_string(trainer.step) + " on " + host.mounted.str());
  at(milliseconds(500), [this, id = host.id, run = trainer.run, step = trainer.step] {
    if (Host* its = trainer_of(id, run)) sense(*its, decide::TrainerResumed{step});
  });
  at(seconds(2) + work_.step_takes, [this, id = host.id, run = trainer.run] { tick(id, run); });
  return decide::TrainerStarted{};
}

}  // namespace spotter::simulate
