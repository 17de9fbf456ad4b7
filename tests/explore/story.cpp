// A move as a line for a person.
#include "agent/decide/describe.hpp"
#include "tests/explore/moves.hpp"

namespace spotter::explore {

namespace {

using Kind = Move::Kind;

std::string instance(const Move& move) { return "i-" + std::to_string(move.who) + ": "; }

std::string words_of_answer(std::uint8_t how) {
  switch (how) {
    case kStale:
      return "answered, from an old picture";
    case kUnseen:
      return "carried out, but not to be seen yet";
    case kFails:
      return "fails";
    case kRefused:
      return "is refused: no permission";
    case kLost:
      return "gets no answer (the call is on its way)";
    case kSpecial:
      return "fails for good";
    case kTimedOut:
      return "has timed out";
    default:
      return "done";
  }
}

std::string volume_words(const Node& node, const Move& move, const char* words) {
  return std::string(volume_id(node.volumes[move.who].id).view()) + " " + words;
}

std::string words_of_kill(std::uint8_t how) {
  const std::string happens = how & kAfter ? ", what it asked for happens" : "";
  return happens + (how & kInFlight ? ", its call in flight" : "");
}

std::string words_of_trouble(const Node& node, const Move& move) {
  if (move.kind == Kind::VolumeFails) return volume_words(node, move, "FAILS to be made");
  if (move.kind == Kind::VolumeVanishes) return volume_words(node, move, "VANISHES");
  return volume_words(node, move, "HANGS in attaching");
}

std::string words_in_bucket(const Move& move) {
  if (move.kind == Kind::Pauses) return "STANDS STILL";
  if (move.kind == Kind::Wakes) return "wakes up as if nothing had been";
  return "the home's commit " + words_of_answer(move.how);
}

std::string words_of(const Node& node, const Move& move) {
  const auto at = [&]() -> const Host& { return node.hosts[move.who - 1]; };
  switch (move.kind) {
    case Kind::VolumeSettles:
      return volume_words(node, move, "settles");
    case Kind::HolderTerminated:
      return volume_words(node, move, "is still with a terminated one");
    case Kind::EpochHolderTerminated:
      return "the epoch's holder is terminated";
    case Kind::SnapshotCompletes:
      return "a snapshot completes";
    case Kind::AgentStarts:
      return instance(move) + "agent starts";
    case Kind::InstanceBoots:
      return instance(move) + "boots in zone " + zone_name(move.how).str();
    case Kind::InstanceEnds:
      return instance(move) + "ends";
    case Kind::NoticeDelivered:
      return instance(move) + "agent sees the notice";
    case Kind::DeadlineReached:
      return instance(move) + "is taken away at the deadline";
    case Kind::Answer:
      return instance(move) + std::string(name(at().pending.command)) + " " +
             words_of_answer(move.how);
    case Kind::CallHappens:
      return instance(move) + std::string(name(at().pending.command)) +
             " is carried out, its answer lost";
    case Kind::Woke:
      return instance(move) + "wakes";
    case Kind::TrainerDies:
      return instance(move) + "trainer dies of SIGKILL";
    case Kind::TrainerStops:
      return instance(move) + (move.how ? "trainer stops without a checkpoint" : "trainer stops");
    case Kind::TrainerFinishes:
      return instance(move) + "TRAINER HAS FINISHED";
    case Kind::TrainerSaves:
      return instance(move) + "trainer makes a checkpoint";
    case Kind::TimePasses:
      return std::to_string((next_time(node) - kNow) / std::chrono::seconds(1)) + " s pass";
    case Kind::LateCallHappens:
      return std::string(name(node.late[move.who].command)) + " of before is carried out only now";
    case Kind::HomeKept:
    case Kind::Wakes:
    case Kind::Pauses:
      return instance(move) + words_in_bucket(move);
    case Kind::InstanceKilled:
      return instance(move) + "KILLED" + words_of_kill(move.how);
    case Kind::AgentKilled:
      return instance(move) + "agent KILLED" + words_of_kill(move.how);
    case Kind::NoticeShown:
      return instance(move) + "NOTICE";
    case Kind::NoticeWithdrawn:
      return instance(move) + "the notice is withdrawn";
    case Kind::InstanceSpared:
      return instance(move) + "is spared";
    case Kind::ShutdownAsked:
      return instance(move) + "is asked to shut down";
    case Kind::TrainerCrashes:
      return instance(move) + "TRAINER CRASHES";
    case Kind::TrainerDeaf:
      return instance(move) + "trainer does not hear";
    case Kind::SnapshotFails:
      return "a snapshot FAILS";
    case Kind::VolumeFails:
    case Kind::VolumeVanishes:
    case Kind::AttachmentHangs:
      return words_of_trouble(node, move);
  }
  return "?";
}

}  // namespace

std::string describe(const Node& before, const Move& move, const Node& after) {
  std::string line = words_of(before, move);
  const bool renamed = before.mirrored != after.mirrored;
  if (renamed) line += "  (i-1 is called i-2 from here on, and i-2 i-1)";
  for (std::size_t i = 0; i < after.hosts.size(); ++i) {
    const Host& host = after.hosts[i];
    if (!host.agent) continue;
    const Host& was = before.hosts[renamed ? 1 - i : i];
    const bool same = was.agent && was.state.stage.index() == host.state.stage.index() &&
                      was.pending.any == host.pending.any;
    if (same) continue;
    line += "  [i-" + std::to_string(i + 1) + " " + std::string(name(host.state.stage));
    if (const auto* waiting = std::get_if<decide::Waiting>(&host.state.stage)) {
      line += ": " + std::string(words(waiting->why));
    }
    if (const auto* blocked = std::get_if<decide::Blocked>(&host.state.stage)) {
      line += ": " + std::string(words(blocked->why));
    }
    line += "]";
  }
  return line;
}

}  // namespace spotter::explore
