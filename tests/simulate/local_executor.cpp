// Work on the host, one piece after the other, as service/act/performer.cpp and
// service/act/local.cpp do it.
#include "agent/decide/describe.hpp"
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using decide::EffectFailed;
using decide::Failure;
using decide::Happening;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

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
  if (on_share()) return begin_on_share(host);
  if (in_bucket() && begin_at_home(host)) return;
  const bool of_data = std::holds_alternative<decide::PrepareData>(agent.working->what) ||
                       std::holds_alternative<decide::ReleaseData>(agent.working->what);
  if (of_data) return begin_on_data(host);
  bool absent = false;
  const Duration lasts = duration_of(host, agent.working->what, absent);
  go_on_at_home(host, lasts, [this, absent](Host& its) {
    const decide::Command asked = its.agent.working->what;
    const Happening outcome =
        absent ? Happening(failure(Failure::DeviceAbsent, "no device")) : work(its, asked);
    if (survives(its, Side::AfterEffect, name(asked))) end_work(its, outcome);
  });
}

// The work's duration; `absent`: it is in vain.
Duration Simulation::duration_of(Host& host, const decide::Command& command, bool& absent) {
  if (const auto* it = std::get_if<decide::FindDevice>(&command)) {
    const Duration patience = (host.agent.working->deadline - now_) * 9 / 10;
    const Node* node = host.node_of(it->volume);
    absent = !node || node->since > now_ + patience;
    if (absent) return patience;
    return std::max(between(milliseconds(20), milliseconds(800)), node->since - now_);
  }
  if (std::holds_alternative<decide::SendResult>(command)) {
    const Duration lasts = between(seconds(1), minutes(5));
    const Duration patience = host.agent.working->deadline - now_;
    absent = lasts > patience;
    return std::min(lasts, patience);
  }
  return takes(host, command);
}

Duration Simulation::takes(Host& host, const decide::Command& command) {
  if (std::holds_alternative<decide::AwaitGpus>(command) && host.lacks_gpus) {
    return policy_.await_gpus * 9 / 10;
  }
  if (std::holds_alternative<decide::FetchCode>(command)) return between(seconds(1), seconds(20));
  if (std::holds_alternative<decide::FillVolume>(command)) return between(seconds(1), minutes(5));
  if (std::holds_alternative<decide::MakeFilesystem>(command)) {
    return between(milliseconds(500), seconds(5));
  }
  if (const auto* it = std::get_if<decide::Mount>(&command)) {
    const Node* node = host.node_at(it->device);
    if (node && disks_[node->volume].dirty && now(Fault::DirtyLog) && fires(0.3)) {
      return between(seconds(20), minutes(10));
    }
  }
  if (std::holds_alternative<decide::VerifyCheckpoints>(command)) {
    return between(milliseconds(200), seconds(20));
  }
  return between(milliseconds(20), milliseconds(800));
}

void Simulation::end_work(Host& host, Happening what) {
  const decide::EffectId id = host.agent.working->id;
  const bool sends = std::holds_alternative<decide::SendResult>(host.agent.working->what);
  if (sends && std::holds_alternative<EffectFailed>(what)) ++sends_failed_;
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
  lose_work(host);
  agent.working.reset();
  answer_later(host, id, milliseconds(5), failure(Failure::Abandoned, "given up"));
  begin_work(host);
}

// A child that is killed got as far as doing the work, or not; of a file system, half.
void Simulation::lose_work(Host& host) {
  if (!host.agent.working) return;
  const decide::Command command = host.agent.working->what;
  if (is_left_waiting(host, command)) return;
  // Each of its steps was carried out, or never will be.
  if (in_bucket() && (std::holds_alternative<decide::PrepareShare>(command) ||
                      std::holds_alternative<decide::WriteLedger>(command))) {
    return;
  }
  if (const auto* it = std::get_if<decide::MakeFilesystem>(&command)) {
    const Node* node = host.node_at(it->device);
    if (!node || disks_[node->volume].content != Disk::Content::Blank || chance(0.5)) return;
    disks_[node->volume].content = Disk::Content::HalfMade;
    needs_person_ = true;
    return;
  }
  if (chance(0.5)) (void)work(host, command);
}

Happening Simulation::work(Host& host, const decide::Command& command) {
  using namespace decide;
  if (fires(menu_.look_fails)) return failure(Failure::Unavailable, "no memory");
  if (std::holds_alternative<LookAtHost>(command)) return look(host);
  if (const auto* it = std::get_if<FindDevice>(&command)) {
    const Node* node = host.node_of(it->volume);
    if (!node) return failure(Failure::DeviceAbsent, "no device");
    return DeviceFound{node->path};
  }
  if (const auto* it = std::get_if<InspectDisk>(&command)) return inspect(host, it->device);
  if (const auto* it = std::get_if<MakeFilesystem>(&command)) {
    return make_filesystem(host, it->device);
  }
  if (const auto* it = std::get_if<decide::Mount>(&command)) return mount(host, *it);
  if (std::holds_alternative<Unmount>(command)) return unmount(host);
  if (std::holds_alternative<PrepareShare>(command)) return prepare_share(host);
  if (std::holds_alternative<ReleaseShare>(command)) return release_share(host);
  if (std::holds_alternative<AwaitGpus>(command)) return await_gpus(host);
  if (std::holds_alternative<PrepareData>(command) ||
      std::holds_alternative<ReleaseData>(command)) {
    return step_on_data(host, command).value_or(failure(Failure::Unavailable, "not done yet"));
  }
  if (std::holds_alternative<FetchCode>(command)) {
    if (now_ < revision_back_) return failure(Failure::CodeMissing, "no such commit");
    if (now_ < git_back_ || fires(menu_.look_fails)) {
      return failure(Failure::CodeUnreachable, "git");
    }
    return CodeFetched{};
  }
  if (const auto* it = std::get_if<FillVolume>(&command)) return fill(host, *it);
  if (std::holds_alternative<StartTrainer>(command)) return start_trainer(host);
  if (!host.mounted) return failure(Failure::MountFailed, "nothing is mounted");
  return work_on_files(host, command);
}

Happening Simulation::look(Host& host) {
  using decide::HostLooked;
  HostLooked seen;
  seen.ec2 = true;
  seen.share = host.mounted == kShare || in_bucket();
  if (!seen.share && !host.cut) seen.mounted = host.mounted;
  seen.ended = host.trainer.ended;
  // Whether the result is there is asked of the server.
  if (on_share() && (!seen.share || is_silent())) seen.ended.success = false;
  if (host.trainer.state == Trainer::State::Running) seen.trainer = HostLooked::Trainer::Running;
  if (host.trainer.state == Trainer::State::Ended) seen.trainer = HostLooked::Trainer::Ended;
  host.agent.watches_trainer = host.trainer.state == Trainer::State::Running;
  return seen;
}

Happening Simulation::inspect(Host& host, const Device& device) {
  const Node* node = host.node_at(device);
  if (!node) return failure(Failure::DeviceAbsent, "the device is gone");
  const Disk::Content content = disks_[node->volume].content;
  decide::DiskInspected seen;
  seen.blank = content == Disk::Content::Blank;
  if (seen.blank) host.looked_into = node->volume;
  seen.matches = content == Disk::Content::Ours;
  if (content == Disk::Content::Foreign) seen.found = "LVM2_member";
  if (content == Disk::Content::HalfMade) seen.found = "data";
  return seen;
}

Happening Simulation::make_filesystem(Host& host, const Device& device) {
  const Node* node = host.node_at(device);
  if (!node) return failure(Failure::DeviceAbsent, "the device is gone");
  Disk& disk = disks_[node->volume];
  const world::Volume* volume = world_.cloud().volumes.find(node->volume);
  if (!volume->tags.count("spotter:format") || strays_.count(node->volume)) {
    broken("a disk is formatted that nobody gave us");
  }
  if (disk.content != Disk::Content::Blank) return failure(Failure::DiskNotBlank, "not blank");
  disk.content = Disk::Content::Ours;
  return decide::FilesystemMade{};
}

// A later look must not take the result of a trainer that has ended for durable: its files are gone
// with the mount, or their errors were reported (service/act/performer.cpp).
void Simulation::forget_end(Host& host) {
  if (host.trainer.state == Trainer::State::Ended) host.trainer.state = Trainer::State::None;
}

Happening Simulation::unmount(Host& host) {
  if (host.trainer.state == Trainer::State::Running && host.mounted) {
    return failure(Failure::Busy, "target is busy");
  }
  if (is_kept_busy(host)) {
    if (is_left(host)) refuse_beside_left(host);
    return failure(Failure::Busy, "target is busy");
  }
  forget_end(host);
  if (cuts_unmount(host)) return failure(Failure::Busy, "the unmount has not ended");
  end_unmount(host);
  return decide::Unmounted{};
}

Happening Simulation::work_on_files(Host& host, const decide::Command& command) {
  using namespace decide;
  Disk& disk = disks_[host.mounted];
  if (std::holds_alternative<MarkDone>(command)) return mark_done(host);
  if (on_share() && host.shut_down) return failure(Failure::MountFailed, "stale file handle");
  const bool refuses = host.read_only || host.shut_down || disk.full || (on_share() && is_denied());
  if (std::holds_alternative<ReadLedger>(command)) {
    return LedgerRead{disk.ledger.value_or(Ledger{})};
  }
  if (const auto* it = std::get_if<WriteLedger>(&command)) {
    // A machine without its GPUs is changed only when that could be counted.
    needs_person_ = needs_person_ || (refuses && (host.lacks_gpus || is_left(host)));
    if (refuses) return failure(Failure::MountFailed, "read-only or full file system");
    judge_write(host, "the ledger");
    disk.ledger = it->ledger;
    return LedgerWritten{};
  }
  if (std::holds_alternative<SyncStorage>(command)) {
    forget_end(host);
    if (!host.shut_down && !(menu_.has(Fault::SyncFails) && fires(0.4))) {
      sync(host);
      return StorageSynced{};
    }
    host.trainer.result_unsynced = false;  // what was in the page cache is lost
    return failure(Failure::MountFailed, "input/output error");
  }
  if (std::holds_alternative<SendResult>(command)) {
    result_at_ = std::min(result_at_, now_);
    return ResultSent{};
  }
  if (host.trainer.state == Trainer::State::Running)
    return failure(Failure::TrainerUnstartable, "the trainer that was stopped has not ended yet");
  CheckpointsVerified seen;
  host.looked_into = host.mounted;
  if (disk.newest() >= 0) seen.newest = disk.newest();
  const auto& verify = std::get<VerifyCheckpoints>(command);
  // Like agent/service/act/local.cpp, does not look again at libspotter's checkpoints.
  if (verify.proven_step >= 0 && work_.aware)
    return decide::CheckpointsVerified{verify.proven_step, 0};
  if (verify.read_only) {
    seen.torn = disk.has_torn();
  } else if (refuses && disk.has_torn() && !work_.aware) {
    return failure(Failure::MountFailed, "cannot move a torn file aside");
  } else if (!refuses) {
    seen.torn = static_cast<std::uint32_t>(
        std::erase_if(disk.checkpoints, [](const Checkpoint& it) { return it.torn; }));
  }
  return seen;
}

Happening Simulation::mount(Host& host, const decide::Mount& command) {
  const Node* node = host.node_at(command.device);
  if (!node || node->volume != command.volume) {
    return failure(Failure::DeviceAbsent, "the device is gone");
  }
  const VolumeId volume = node->volume;
  if (strays_.count(volume) && disks_[volume].content != Disk::Content::Ours) {
    broken("somebody else's disk is mounted");
  }
  if (host.mounted && host.mounted != volume) return failure(Failure::Busy, "another is mounted");
  if (host.cut) return failure(Failure::Busy, "the device is in use");
  // Mounted already: read-only is remounted, writable stays so (host/mount.cpp).
  if (host.mounted && host.shut_down) return failure(Failure::MountFailed, "input/output error");
  host.mounted = volume;
  host.read_only = command.read_only;
  world_.set_mounted(volume, true, now_);
  if (!host.read_only) {
    judge_write(host, "a log");
    judge_first_write(host);
  }
  return decide::Mounted{};
}

// A trainer syncs its checkpoints. It need not sync its result.
void Simulation::sync(Host& host) {
  if (!host.mounted || host.trainer.volume != host.mounted) return;
  Disk& disk = disks_[host.mounted];
  disk.result = disk.result || std::exchange(host.trainer.result_unsynced, false);
}

Happening Simulation::start_trainer(Host& host) {
  Trainer& trainer = host.trainer;
  if (trainer.state == Trainer::State::Running || !host.mounted || host.read_only) {
    return failure(Failure::TrainerUnstartable, "it runs already, or has no place to write");
  }
  if (is_left(host)) return refuse_beside_left(host);
  host.refused_since = decide::kNever;
  trainer = Trainer{};
  trainer.state = Trainer::State::Running;
  trainer.volume = host.mounted;
  trainer.run = ++numbers_;
  host.agent.watches_trainer = true;
  judge_start(host);
  host.saw_gpus = false;
  ++starts_in_vain_;
  given_back_ = 0;
  if (starts_counted_ > 0) --starts_counted_;
  trainer.step = std::max<std::int64_t>(0, disks_[host.mounted].newest());
  trainer.base = disks_[host.mounted].newest_whole().number;
  say(host.id.view(), "trainer resumes at step ", trainer.step, " on ", host.mounted);
  if (!work_.mute)
    at(milliseconds(500), [this, id = host.id, run = trainer.run, step = trainer.step] {
      if (Host* its = trainer_of(id, run)) sense(*its, decide::TrainerResumed{step});
    });
  at(seconds(2) + work_.step_takes, [this, id = host.id, run = trainer.run] { tick(id, run); });
  return decide::TrainerStarted{};
}

}  // namespace spotter::simulate
