// The host in the abstract: disks, a mount, a trainer. Like tests/simulate, without time.
#include <algorithm>

#include "tests/explore/world.hpp"

namespace spotter::explore {

using namespace decide;

namespace {

bool has_device(Node& node, const Host& host, std::uint8_t volume) {
  const Volume* its = find_volume(node, volume);
  const auto place = static_cast<std::uint8_t>(&host - node.hosts.data() + 1);
  return its && its->face.there && its->face.holder == place &&
         its->face.attachment == AttachmentState::Attached;
}

struct Work {
  Node& node;
  Host& host;

  Contents* disk() const {
    if (in_bucket()) return host.mark != 0 ? &host.copy : nullptr;
    Volume* volume = find_volume(node, host.mounted);
    return volume ? &volume->contents : nullptr;
  }

  void forget_end() const {
    if (host.trainer.state == Trainer::State::Ended) host.trainer = {};
  }

  Happening operator()(const LookAtHost&) const {
    HostLooked seen;
    seen.mounted = volume_id(host.mounted);
    seen.share = in_bucket();
    seen.ended = {host.trainer.success, host.trainer.as_asked};
    const bool runs = host.trainer.state == Trainer::State::Running;
    if (runs) seen.trainer = HostLooked::Trainer::Running;
    if (host.trainer.state == Trainer::State::Ended) seen.trainer = HostLooked::Trainer::Ended;
    host.trainer.watched = runs;
    return seen;
  }
  Happening operator()(const ReadIdentity&) const {
    const auto place = static_cast<std::uint8_t>(&host - node.hosts.data() + 1);
    return IdentityRead{instance_id(place), "p3.2xlarge", zone_name(host.zone), "us-west-2"};
  }
  Happening operator()(const FindDevice& it) const {
    if (!has_device(node, host, number_of(it.volume))) return failed(Failure::DeviceAbsent);
    return DeviceFound{Device(it.volume.view())};
  }
  Happening operator()(const InspectDisk& it) const {
    const std::uint8_t volume = number_of(it.device);
    if (!has_device(node, host, volume)) return failed(Failure::DeviceAbsent);
    const bool blank = find_volume(node, volume)->contents.blank;
    return DiskInspected{blank, !blank, {}};
  }
  Happening operator()(const MakeFilesystem& it) const {
    const std::uint8_t volume = number_of(it.device);
    if (!has_device(node, host, volume)) return failed(Failure::DeviceAbsent);
    Contents& contents = find_volume(node, volume)->contents;
    if (!contents.blank) return failed(Failure::DiskNotBlank);
    judge_write(node, host, volume);
    contents.blank = false;
    return FilesystemMade{};
  }
  Happening operator()(const decide::Mount& it) const {
    const std::uint8_t volume = number_of(it.device);
    if (!has_device(node, host, volume)) return failed(Failure::DeviceAbsent);
    if (host.mounted && host.mounted != volume) return failed(Failure::Busy);
    host.mounted = volume;
    host.read_only = it.read_only;
    return Mounted{};
  }
  Happening operator()(const Unmount&) const {
    if (host.mounted && host.trainer.state == Trainer::State::Running) return failed(Failure::Busy);
    forget_end();
    host.mounted = 0;
    host.read_only = false;
    return Unmounted{};
  }
  Happening operator()(const PrepareShare&) const { return bring(node, host); }
  Happening operator()(const ReleaseShare&) const {
    forget_end();
    return Unmounted{};
  }
  Happening operator()(const ReadLedger&) const {
    if (!disk()) return failed(Failure::MountFailed);
    return LedgerRead{disk()->ledger};
  }
  Happening operator()(const WriteLedger& it) const {
    if (!disk() || host.read_only) return failed(Failure::MountFailed);
    judge_write(node, host, host.mounted);
    if (it.ledger.newest_step >= node.durable) node.in_vain = node.in_vain_since;
    disk()->ledger = it.ledger;
    disk()->ledger.seconds = disk()->ledger.dollars = 0;
    return LedgerWritten{};
  }
  Happening operator()(const SyncStorage&) const {
    if (!disk()) return failed(Failure::MountFailed);
    forget_end();
    return StorageSynced{};
  }
  Happening operator()(const SendResult&) const { return ResultSent{}; }
  Happening operator()(const VerifyCheckpoints& it) const {
    if (!disk()) return failed(Failure::MountFailed);
    if (it.proven_step >= 0) return CheckpointsVerified{it.proven_step, 0};
    CheckpointsVerified seen;
    if (disk()->newest >= 0) seen.newest = disk()->newest;
    seen.torn = disk()->torn ? 1 : 0;
    if (!it.read_only) disk()->torn = false;
    return seen;
  }
  Happening operator()(const AwaitGpus&) const { return GpusFound{}; }
  Happening operator()(const FetchCode&) const { return CodeFetched{}; }
  Happening operator()(const FillVolume&) const { return failed(Failure::MountFailed); }
  Happening operator()(const StartTrainer&) const {
    const bool able = in_bucket() ? host.mark != 0 : host.mounted && !host.read_only;
    if (!able || host.trainer.state == Trainer::State::Running) {
      return failed(Failure::TrainerUnstartable);
    }
    host.trainer = {};
    host.trainer.state = Trainer::State::Running;
    host.trainer.watched = true;
    host.trainer.step = disk()->newest;
    judge_start(node, host);
    return TrainerStarted{};
  }
  template <class Other>
  Happening operator()(const Other&) const {
    return failed(Failure::Rejected);
  }
};

}  // namespace

void count_vain(Node& node) {
  if (node.in_vain < 2) ++node.in_vain;
  if (node.in_vain_since < 2) ++node.in_vain_since;
}

Happening work(Node& node, Host& host, const Command& command) {
  return std::visit(Work{node, host}, command);
}

void write_checkpoint(Node& node, Host& host) {
  if (in_bucket()) {
    host.copy.newest = ++host.trainer.step;
    node.in_vain_since = 0;
    return;
  }
  judge_write(node, host, host.mounted);
  Volume* volume = find_volume(node, host.mounted);
  if (!volume) return;
  volume->contents.newest = ++host.trainer.step;
  node.durable = std::max(node.durable, host.trainer.step);
  node.in_vain_since = 0;
}

void end_trainer(Node& node, Host& host, bool success, bool as_asked) {
  Trainer& trainer = host.trainer;
  const bool watched = trainer.watched;
  trainer = {};
  trainer.state = Trainer::State::Ended;
  trainer.success = success;
  trainer.as_asked = as_asked;
  trainer.watched = watched;
  if (!success && !as_asked) count_vain(node);
}

void die(Node& node, std::uint8_t place, std::uint8_t remains, bool torn) {
  Host& host = node.hosts[place - 1];
  if (host.trainer.state == Trainer::State::Running) {
    Volume* volume = find_volume(node, host.mounted);
    if (volume && torn) volume->contents.torn = true;
    count_vain(node);
  }
  host = {};
  for (Volume& it : node.volumes) {
    for (Face* face : {&it.face, &it.old}) {
      if (face->holder != place) continue;
      face->holder = remains;
      if (remains != kStopped) face->attachment = AttachmentState::Detaching;
      if (remains == kStopped && face->attachment == AttachmentState::Attaching) {
        face->attachment = AttachmentState::Attached;
      }
    }
  }
  for (Late& it : node.late) {  // of its commits, too, only what was made for the head as it is
    const auto* write = std::get_if<decide::WriteLedger>(&it.command);
    const bool of_it = it.any && it.caller == place && write != nullptr;
    if (of_it && !is_held(node, place, write->epoch)) it = {};
  }
  if (node.epoch_holder == place) node.epoch_holder = remains;
  for (Late& it : node.late) {
    if (!it.any || it.caller != place) continue;
    it.caller = kNobody;
    const bool moot = std::holds_alternative<decide::AttachVolume>(it.command) ||
                      std::holds_alternative<decide::GiveBackInstance>(it.command) ||
                      std::holds_alternative<decide::DetachVolume>(it.command);
    if (moot) it = {};
  }
}

}  // namespace spotter::explore
