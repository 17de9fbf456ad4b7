// Carrying out a move: the world changes, the real core steps, what it asks for is begun.
#include <algorithm>
#include <utility>

#include "agent/decide/describe.hpp"
#include "agent/decide/step.hpp"
#include "tests/explore/moves.hpp"
#include "tests/explore/pack.hpp"
#include "tests/explore/world.hpp"

namespace spotter::explore {

using namespace decide;
using Kind = Move::Kind;

namespace {

// The time in which a call without an answer may still be carried out.
const Duration kFlight = small_policy().ec2_call;

std::uint8_t place_of(const Node& node, const Host& host) {
  return static_cast<std::uint8_t>(&host - node.hosts.data() + 1);
}

Happening look(const Node& node, const Host& host, bool stale) {
  StorageSurveyed seen{survey(node, stale)};
  seen.survey.epoch_self = instance_id(place_of(node, host));
  return seen;
}

Happening carry_out(Node& node, Host& host, const Command& command, bool unseen = false) {
  if (is<SurveyStorage>(command)) return look(node, host, false);
  if (changes_ec2(command) || is<ReadFleet>(command)) {
    return call_ec2(node, place_of(node, host), command, unseen);
  }
  return work(node, host, command);
}

void fly(Node& node, std::uint8_t caller, const Pending& pending) {
  if (!changes_ec2(pending.command) || pending.lost == Pending::Lost::Settled) return;
  for (Late& it : node.late) {
    if (it.any) continue;
    it = {true,
          caller,
          pending.lost == Pending::Lost::No ? kNow + kFlight : pending.deadline,
          pending.command,
          {}};
    auto* write = std::get_if<WriteLedger>(&it.command);
    if (write == nullptr) return;
    if (write->epoch == 0) write->epoch = node.epoch.number;  // that of the head as it was read
    it.contents = node.hosts[caller - 1].copy;
    if (node.hosts[caller - 1].agent) return;
    // A dead session's write counts only if S3 has it already: it was made for the head as it is.
    it.caller = kNobody;
    if (!is_held(node, caller, write->epoch)) it = {};
    return;
  }
}

// A commit that is given up: S3 has it already, or never will.
void end_keeping(Node& node, Host& host) {
  overtake(node, place_of(node, host));
  Pending pending;
  pending.command = WriteLedger{host.copy.ledger, host.home.keeping_epoch};
  fly(node, place_of(node, host), pending);
  host.home.keeping = false;
  host.home.keeping_epoch = 0;
}

void perform(Node& node, Host& host, const Effect& effect) {
  const Command& command = effect.what;
  Trainer& trainer = host.trainer;
  const bool runs = trainer.state == Trainer::State::Running;
  if (is<StopTrainer>(command)) {
    trainer.asked = trainer.asked || runs;
  } else if (is<KillTrainer>(command)) {
    trainer.doomed = trainer.doomed || runs;
  } else if (is<Abandon>(command) && std::get<Abandon>(command).effect != host.state.awaited) {
    if (host.home.keeping) end_keeping(node, host);
  } else if (is<Abandon>(command)) {
    host.pending.abandoned = host.pending.any;
  } else if (is<Exit>(command)) {
    host.agent = false;
    host.left = true;
  } else if (effect.id != host.state.awaited && in_bucket() && is<WriteLedger>(command)) {
    const auto& write = std::get<WriteLedger>(command);
    write_locally(host, write.ledger);
    host.home.keeping = true;
    host.home.keeping_epoch = write.epoch;
  } else if (effect.id != host.state.awaited) {
    (void)carry_out(node, host, command);  // issued, not asked
  } else {
    // The earlier request is not waited for any more; local work is done in its order.
    if (host.pending.any && !host.pending.abandoned) {
      fly(node, place_of(node, host), host.pending);
      if (!changes_ec2(host.pending.command) && !is<SurveyStorage>(host.pending.command)) {
        (void)carry_out(node, host, host.pending.command);
      }
    }
    host.pending = {true, false, Pending::Lost::No, kNever, command};
  }
}

void take(Node& node, Host& host, const Event& event) {
  static const Policy policy = small_policy();
  Effects effects;
  step(host.state, event, policy, effects);
  if (const char* words = broken_invariant(host.state)) broken(node, words);
  for (const Effect& effect : effects) perform(node, host, effect);
}

void sense(Node& node, Host& host, Happening what) {
  if (host.agent) take(node, host, {kNow, {}, std::move(what)});
}

void answer(Node& node, Host& host, Happening what) {
  host.pending = {};
  take(node, host, {kNow, host.state.awaited, std::move(what)});
}

EffectFailed failed(Failure kind, bool unsettled = false) {
  EffectFailed result;
  result.failure = kind;
  result.unsettled = unsettled;
  return result;
}

Failure special_failure(const Command& command) {
  if (is<AwaitGpus>(command)) return Failure::GpusAbsent;
  if (is<FindDevice>(command)) return Failure::DeviceAbsent;
  if (is<Unmount>(command)) return Failure::Busy;
  if (is<StartTrainer>(command)) return Failure::TrainerUnstartable;
  return Failure::MountFailed;
}

void answer(Node& node, Host& host, Way way) {
  Pending& pending = host.pending;
  const Command command = pending.command;
  if (way == kLost) {
    pending.lost = Pending::Lost::Perhaps;
    pending.deadline = kNow + kFlight;
    return;
  }
  if (pending.abandoned) {
    if (way == kDone) (void)carry_out(node, host, command);
    return answer(node, host, failed(Failure::Abandoned, !is<decide::Mount>(command)));
  }
  const bool tidies =
      is<decide::DeleteVolume, decide::DeleteSnapshot, DetachVolume, MarkDone>(command);
  if (way == kRefused && tidies) node.refused = true;
  if (way == kStale) return answer(node, host, look(node, host, true));
  if (way == kFails) return answer(node, host, failed(Failure::Unavailable));
  if (way == kRefused) return answer(node, host, failed(Failure::Refused));
  if (way == kTimedOut) return answer(node, host, failed(Failure::Unavailable, true));
  if (way == kSpecial && is<AwaitGpus>(command)) count_vain(node);
  if (way == kSpecial) return answer(node, host, failed(special_failure(command)));
  const Epoch before = node.epoch;
  const bool was_ours = node.epoch_holder == place_of(node, host);
  const Happening what = carry_out(node, host, command, way == kUnseen);
  if (std::holds_alternative<EpochWritten>(what)) {
    host.home.wrote = node.epoch.number;
    host.home.held = was_ours && before.state == Epoch::State::Using ? before.number : 0;
  }
  answer(node, host, what);
}

// The outcome of a commit that was not waited for.
void home_kept(Node& node, Host& host, std::uint8_t how) {
  const std::uint8_t place = place_of(node, host);
  host.home.keeping = false;
  const std::uint32_t epoch = std::exchange(host.home.keeping_epoch, 0U);
  HomeKept kept;
  kept.newest = host.copy.newest;
  kept.outcome = HomeKept::Outcome::Failed;
  if (node.epoch_holder == place && how != kFails) host.mark = node.epoch.number;
  if (how == kDone) {
    overtake(node, place);
    const bool taken = commit(node, place, epoch, host.copy);
    kept.outcome = taken ? HomeKept::Outcome::Committed : HomeKept::Outcome::Lost;
  }
  if (how == kLost) {
    overtake(node, place);
    Pending pending;
    pending.command = WriteLedger{host.copy.ledger, epoch};
    fly(node, place, pending);
  }
  sense(node, host, kept);
}

void settle(Volume& volume) {
  Face& face = volume.face;
  if (face.state == VolumeState::Creating) {
    face.state = VolumeState::Available;
  } else if (face.attachment == AttachmentState::Attaching) {
    face.attachment = AttachmentState::Attached;
  } else {
    face.attachment = AttachmentState::None;
    face.holder = kNobody;
    face.state = VolumeState::Available;
  }
}

void ended(Node& node, Host& host, bool success, bool as_asked) {
  end_trainer(node, host, success, as_asked);
  if (!host.trainer.watched) return;
  host.trainer.watched = false;
  sense(node, host, TrainerEnded{success, as_asked});
}

void save(Node& node, Host& host) {
  write_checkpoint(node, host);
  sense(node, host, CheckpointMade{host.trainer.step});
}

void finish(Node& node, Host& host) {
  save(node, host);
  if (Volume* volume = find_volume(node, host.mounted)) volume->contents.result = true;
  host.copy.result = true;
  ended(node, host, true, false);
}

void crash(Node& node, Host& host, bool torn) {
  Volume* volume = find_volume(node, host.mounted);
  if (volume && torn) volume->contents.torn = true;
  host.copy.torn = host.copy.torn || torn;
  ended(node, host, false, false);
}

void boot(Host& host, std::uint8_t zone) {
  host = {};
  host.alive = true;
  host.zone = zone;
}

void start_agent(Node& node, Host& host) {
  host.agent = true;
  host.notified = false;
  host.state = {};
  host.home = {};
  host.trainer.watched = false;
  sense(node, host, Started{});
}

void show_notice(Host& host, std::uint8_t how) {
  host.noticed = true;
  host.notified = false;
  host.stop = how == 1;
  host.deadline = kNow + (how == 2 ? seconds(10) : seconds(60));
}

void tell_notice(Node& node, Host& host) {
  host.notified = true;
  const auto action = host.stop ? InterruptionAction::Stop : InterruptionAction::Terminate;
  sense(node, host, NoticeSeen{action, host.deadline});
}

void kill_agent(Node& node, Host& host, std::uint8_t how) {
  const Pending pending = host.pending;
  if (how & kAfter) (void)carry_out(node, host, pending.command);
  host.agent = false;
  if (how & kInFlight) fly(node, place_of(node, host), pending);
  host.notified = false;
  host.trainer.watched = false;
  host.home = {};
  for (Late& it : node.late)  // of its commits only what S3 has already
    if (it.any && it.caller == place_of(node, host) && is<WriteLedger>(it.command)) it = {};
}

// Moves of one instance.
void apply(Node& node, Host& host, const Move& move) {
  const std::uint8_t place = move.who;
  switch (move.kind) {
    case Kind::AgentStarts:
      return start_agent(node, host);
    case Kind::InstanceBoots:
      return boot(host, move.how);
    case Kind::InstanceEnds:
      return die(node, place, kDying, false);
    case Kind::NoticeDelivered:
      return tell_notice(node, host);
    case Kind::DeadlineReached:
      return die(node, place, host.stop ? kStopped : kDying, false);
    case Kind::Answer:
      return answer(node, host, static_cast<Way>(move.how));
    case Kind::CallHappens:
      host.pending.lost = Pending::Lost::Settled;
      (void)carry_out(node, host, host.pending.command);
      return;
    case Kind::HomeKept:
      return home_kept(node, host, move.how);
    case Kind::Pauses:
      host.paused = node.was_paused = true;
      return;
    case Kind::Wakes:
      host.paused = false;
      return;
    case Kind::Woke:
      return sense(node, host, Woke{});
    case Kind::TrainerDies:
      return crash(node, host, false);
    case Kind::TrainerStops:
      if (move.how == 0) save(node, host);
      return ended(node, host, false, true);
    case Kind::TrainerFinishes:
      return finish(node, host);
    case Kind::TrainerSaves:
      return save(node, host);
    case Kind::InstanceKilled:
      if (host.agent) kill_agent(node, host, move.how);
      return die(node, place, kDying, move.how & kTorn);
    case Kind::AgentKilled:
      return kill_agent(node, host, move.how);
    case Kind::NoticeShown:
      return show_notice(host, move.how);
    case Kind::NoticeWithdrawn:
      host.noticed = false;
      if (host.notified) sense(node, host, NoticeWithdrawn{});
      host.notified = false;
      return;
    case Kind::InstanceSpared:
      host.noticed = host.notified = false;
      return;
    case Kind::ShutdownAsked:
      return sense(node, host, StopRequested{kNow + seconds(10)});
    case Kind::TrainerCrashes:
      return crash(node, host, move.how & kTorn);
    case Kind::TrainerDeaf:
      host.trainer.deaf = true;
      return;
    default:
      return;
  }
}

}  // namespace

void apply(Node& node, const Move& move) {
  Volume& volume = node.volumes[move.who % node.volumes.size()];
  Snapshot& snapshot = node.snapshots[move.who % node.snapshots.size()];
  switch (move.kind) {
    case Kind::VolumeSettles:
      settle(volume);
      break;
    case Kind::HolderTerminated:
      volume.face.holder = kTerminated;
      break;
    case Kind::EpochHolderTerminated:
      node.epoch_holder = kTerminated;
      break;
    case Kind::SnapshotCompletes:
      snapshot.state = SnapshotState::Completed;
      break;
    case Kind::SnapshotFails:
      snapshot.state = SnapshotState::Failed;
      break;
    case Kind::VolumeFails:
      volume.face.state = VolumeState::Error;
      break;
    case Kind::VolumeVanishes:
      volume.face.there = false;
      break;
    case Kind::AttachmentHangs:
      volume.stuck = true;
      break;
    case Kind::TimePasses:
      pass_time(node, next_time(node) - kNow);
      break;
    case Kind::LateCallHappens: {
      const Late late = node.late[move.who];
      node.late[move.who] = {};
      const auto* write = std::get_if<WriteLedger>(&late.command);
      if (write != nullptr) {
        (void)commit(node, late.caller, write->epoch, late.contents);
      } else {
        (void)call_ec2(node, late.caller, late.command, false);
      }
      break;
    }
    default:
      apply(node, node.hosts[move.who - 1], move);
  }
  normalise(node);
}

}  // namespace spotter::explore
