#include "tests/explore/moves.hpp"

#include <algorithm>

#include "tests/explore/world.hpp"

namespace spotter::explore {

using namespace decide;
using Kind = Move::Kind;

namespace {

struct List {
  std::vector<Move> calm;
  std::vector<Move> other;

  void calmly(Kind kind, std::size_t who = 0, int how = 0) { add(calm, kind, who, how, 0); }
  void maybe(Kind kind, std::size_t who = 0, int how = 0) { add(other, kind, who, how, 0); }
  void fault(Kind kind, std::size_t who = 0, int how = 0) { add(other, kind, who, how, 1); }

 private:
  static void add(std::vector<Move>& to, Kind kind, std::size_t who, int how, int cost) {
    to.push_back({kind, static_cast<std::uint8_t>(who), static_cast<std::uint8_t>(how),
                  static_cast<std::uint8_t>(cost)});
  }
};

bool is_over(const Node& node) { return node.cancelled || node.scaled_to_zero; }

void storage_moves(const Node& node, List& list) {
  for (std::size_t i = 0; i < node.volumes.size(); ++i) {
    const Volume& it = node.volumes[i];
    if (!it.id || !it.face.there) continue;
    const bool creating = it.face.state == VolumeState::Creating;
    const bool attaching = it.face.attachment == AttachmentState::Attaching;
    if (is_changing(it)) list.calmly(Kind::VolumeSettles, i);
    if (creating) {
      list.fault(Kind::VolumeFails, i);
      list.fault(Kind::VolumeVanishes, i);
    }
    if (attaching && !it.stuck) list.fault(Kind::AttachmentHangs, i);
    if (it.face.holder == kDying) list.maybe(Kind::HolderTerminated, i);
  }
  if (node.epoch_holder == kDying) list.calmly(Kind::EpochHolderTerminated);
  for (std::size_t i = 0; i < node.snapshots.size(); ++i) {
    const Snapshot& it = node.snapshots[i];
    if (!it.id || !it.there || it.state != SnapshotState::Pending) continue;
    list.calmly(Kind::SnapshotCompletes, i);
    list.fault(Kind::SnapshotFails, i);
  }
  for (std::size_t i = 0; i < node.late.size(); ++i) {
    if (node.late[i].any) list.maybe(Kind::LateCallHappens, i);
  }
}

// Tells whether this local work can fail in a way other than "try again later".
bool has_special_failure(const Command& command) {
  return is<AwaitGpus, FindDevice, decide::Mount, Unmount, WriteLedger, StartTrainer, SyncStorage>(
      command);
}

void answers(const Node& node, std::size_t place, const Pending& pending, List& list) {
  if (pending.lost != Pending::Lost::No) {
    if (pending.lost == Pending::Lost::Perhaps) list.maybe(Kind::CallHappens, place);
    if (pending.deadline <= kNow) list.calmly(Kind::Answer, place, kTimedOut);
    return;
  }
  if (pending.abandoned) {
    list.calmly(Kind::Answer, place, kFails);
    if (is<decide::Mount>(pending.command)) list.maybe(Kind::Answer, place, kDone);
    return;
  }
  const Command& command = pending.command;
  list.calmly(Kind::Answer, place, kDone);
  list.fault(Kind::Answer, place, kFails);
  if (is<SurveyStorage>(command) && is_stale(node)) list.maybe(Kind::Answer, place, kStale);
  if (changes_ec2(command)) {
    list.fault(Kind::Answer, place, kRefused);
    list.fault(Kind::Answer, place, kLost);
    if (!is<decide::CancelFleet, ScaleFleetToZero, GiveBackInstance, WriteEpoch, WriteLedger>(
            command)) {
      list.fault(Kind::Answer, place, kUnseen);
    }
  }
  if (is<ReadFleet>(command)) list.fault(Kind::Answer, place, kRefused);
  if (is<decide::Mount, StartTrainer>(command)) list.fault(Kind::Answer, place, kLost);
  if (has_special_failure(command)) list.fault(Kind::Answer, place, kSpecial);
}

void trainer_moves(const Host& host, std::size_t place, List& list) {
  const Trainer& trainer = host.trainer;
  if (trainer.state != Trainer::State::Running) return;
  if (trainer.doomed) return list.calmly(Kind::TrainerDies, place);
  if (trainer.asked && !trainer.deaf) {
    list.calmly(Kind::TrainerStops, place);
    list.maybe(Kind::TrainerStops, place, 1);
    list.fault(Kind::TrainerDeaf, place);
  }
  list.maybe(Kind::TrainerSaves, place);
  list.fault(Kind::TrainerCrashes, place);
  list.fault(Kind::TrainerCrashes, place, kTorn);
}

void kills(const Node& node, const Host& host, std::size_t place, bool free, List& list) {
  const auto kill = [&](Kind kind, int how = 0) {
    free ? list.maybe(kind, place, how) : list.fault(kind, place, how);
  };
  const bool trains = host.trainer.state == Trainer::State::Running;
  kill(Kind::InstanceKilled);
  if (trains) kill(Kind::InstanceKilled, kTorn);
  if (!host.agent) return;
  kill(Kind::AgentKilled);
  const Pending& pending = host.pending;
  if (!pending.any || pending.lost == Pending::Lost::Settled) return;
  const Command& command = pending.command;
  if (changes_ec2(command)) {
    kill(Kind::InstanceKilled, kAfter);
    kill(Kind::AgentKilled, kAfter);
    if (node.late[1].any) return;
    list.fault(Kind::InstanceKilled, place, kInFlight);
  } else if (is<WriteLedger, MakeFilesystem>(command)) {
    kill(Kind::InstanceKilled, kAfter);
    kill(Kind::AgentKilled, kAfter);
  } else if (is<decide::Mount, Unmount, StartTrainer>(command)) {
    kill(Kind::AgentKilled, kAfter);
  }
}

void notice_moves(const Host& host, std::size_t place, List& list) {
  if (!host.noticed) {
    for (int how = 0; how < 3; ++how) list.fault(Kind::NoticeShown, place, how);
    return;
  }
  if (host.deadline <= kNow) {
    list.calmly(Kind::DeadlineReached, place);
    list.fault(Kind::InstanceSpared, place);
  } else if (host.agent && !host.notified) {
    list.calmly(Kind::NoticeDelivered, place);
  }
  list.fault(Kind::NoticeWithdrawn, place);
}

// Local work is done one piece after the other.
bool waits_for_the_home(const Host& host) {
  const Command& command = host.pending.command;
  const bool elsewhere = changes_ec2(command) && !is<WriteLedger>(command);
  return host.home.keeping && !elsewhere && !is<SurveyStorage, ReadFleet, ReadIdentity>(command);
}

// True: it stands still.
bool paused_moves(const Host& host, std::size_t place, List& list) {
  if (in_bucket() && host.agent && !host.paused) list.fault(Kind::Pauses, place);
  if (!host.paused) return false;
  list.calmly(Kind::Wakes, place);
  if (host.noticed && host.deadline <= kNow) list.calmly(Kind::DeadlineReached, place);
  return true;
}

void host_moves(const Node& node, std::size_t place, bool free_kills, List& list) {
  const Host& host = node.hosts[place - 1];
  if (is_over(node) || host.left) list.calmly(Kind::InstanceEnds, place);
  if (paused_moves(host, place, list)) return;
  if (!host.agent && !host.left) list.calmly(Kind::AgentStarts, place);
  notice_moves(host, place, list);
  if (host.agent) {
    if (host.home.keeping) {
      list.calmly(Kind::HomeKept, place, kDone);
      list.fault(Kind::HomeKept, place, kFails);
      list.fault(Kind::HomeKept, place, kLost);
    }
    if (host.pending.any && !waits_for_the_home(host)) answers(node, place, host.pending, list);
    if (host.state.wake_at <= kNow) list.calmly(Kind::Woke, place);
    if (!host.state.facts.exit.leave) list.fault(Kind::ShutdownAsked, place);
  }
  trainer_moves(host, place, list);
  kills(node, host, place, free_kills, list);
}

// Does anything wait for its turn now? Then time stands still: agents and EC2 are quick.
bool is_busy(const Node& node) {
  for (const Volume& it : node.volumes) {
    if (it.due <= kNow) return true;
  }
  bool alive = false;
  for (const Host& it : node.hosts) {
    if (!it.alive) continue;
    alive = true;
    if (it.paused) {
      if (it.noticed && it.deadline <= kNow) return true;
      continue;
    }
    if (it.home.keeping) return true;
    if (is_over(node) || it.left || !it.agent || it.trainer.doomed) return true;
    if (it.noticed && (!it.notified || it.deadline <= kNow)) return true;
    const bool waits = it.pending.lost != Pending::Lost::No && it.pending.deadline > kNow;
    if (it.pending.any && !waits) return true;
    if (it.state.wake_at <= kNow) return true;
  }
  return !alive && !is_over(node);
}

// The agent only reads what nobody else changes, or is about to start: what others do meanwhile
// they can do as well after it. A kill now and a kill after it leave the same. So the search need
// not try both orders (a persistent set: the moves of this machine).
bool only_reads(const Host& host) {
  if (!host.alive || host.paused || host.left) return false;
  if (host.trainer.state == Trainer::State::Running || host.home.keeping) return false;
  if (!host.agent) return true;
  const Pending& pending = host.pending;
  const bool reads =
      is<LookAtHost, ReadIdentity, ReadFleet, FetchCode, ReadLedger>(pending.command) ||
      (in_bucket() && is<VerifyCheckpoints>(pending.command));  // of its own working copy
  return pending.any && !pending.abandoned && pending.lost == Pending::Lost::No &&
         host.state.wake_at > kNow && reads;
}

bool is_crowded(const Node& node, const Limits& limits) {
  const auto there = [](const Volume& it) { return it.id && it.face.there; };
  const auto kept = [](const Snapshot& it) { return it.id && it.there; };
  return std::count_if(node.volumes.begin(), node.volumes.end(), there) > limits.volumes ||
         std::count_if(node.snapshots.begin(), node.snapshots.end(), kept) > limits.snapshots;
}

std::vector<Move> chosen(List list, const Node& node, const Limits& limits) {
  if (list.calm.empty()) return {};  // only violence could go on: this is the end
  if (is_crowded(node, limits)) return std::move(list.calm);
  list.calm.insert(list.calm.end(), list.other.begin(), list.other.end());
  return std::move(list.calm);
}

}  // namespace

// When the next thing is due of itself.
Time next_time(const Node& node) {
  Time next = kNever;
  for (const Volume& it : node.volumes) next = std::min(next, it.due);
  for (const Late& it : node.late) {
    if (it.any) next = std::min(next, it.deadline);
  }
  for (const Host& it : node.hosts) {
    if (!it.alive) continue;
    if (it.noticed) next = std::min(next, it.deadline);
    if (!it.agent || it.paused) continue;
    next = std::min(next, it.state.wake_at);
    if (it.pending.lost != Pending::Lost::No) next = std::min(next, it.pending.deadline);
  }
  return next;
}

std::vector<Move> moves(const Node& node, const Limits& limits) {
  List list;
  const auto reader = std::find_if(node.hosts.begin(), node.hosts.end(), only_reads);
  if (reader != node.hosts.end() && !is_over(node)) {
    const auto place = static_cast<std::size_t>(reader - node.hosts.begin() + 1);
    host_moves(node, place, limits.free_kills, list);
    return chosen(std::move(list), node, limits);
  }
  storage_moves(node, list);
  std::size_t alive = 0, awake = 0;
  for (std::size_t i = 0; i < node.hosts.size(); ++i) {
    if (!node.hosts[i].alive) continue;
    ++alive;
    awake += node.hosts[i].paused ? 0 : 1;
    host_moves(node, i + 1, limits.free_kills, list);
  }
  for (std::size_t i = 0; i < limits.instances; ++i) {
    if (node.hosts[i].alive || is_over(node)) continue;
    for (int zone = 0; zone < limits.zones; ++zone) {
      if (alive == 0) list.calmly(Kind::InstanceBoots, i + 1, zone);
      if (alive != 0 && awake == 0) list.maybe(Kind::InstanceBoots, i + 1, zone);
      if (awake != 0) list.fault(Kind::InstanceBoots, i + 1, zone);
    }
    break;
  }
  for (std::size_t i = 0; i < node.hosts.size(); ++i) {
    const Trainer& trainer = node.hosts[i].trainer;
    const bool runs =
        node.hosts[i].alive && !node.hosts[i].paused && trainer.state == Trainer::State::Running;
    if (runs && !trainer.doomed) list.calmly(Kind::TrainerFinishes, i + 1);
  }
  if (!is_busy(node) && next_time(node) != kNever) list.calmly(Kind::TimePasses);
  return chosen(std::move(list), node, limits);
}

}  // namespace spotter::explore
