// Everything that can happen next at a Node: the course of things without a fault, ordinary
// interruptions, and faults.
#pragma once

#include <string>
#include <variant>

#include "tests/explore/model.hpp"

namespace spotter::explore {

struct Limits {
  std::uint8_t zones = 2;
  std::uint8_t instances = 1;  // at once
  // Interruptions of instances and agents without notice cost no fault: there is no end of them.
  bool free_kills = false;
  // While there are more, nothing goes wrong: a job that is interrupted in each zone in turn before
  // it ever trains could else pile up copies without end.
  std::uint8_t volumes = 3;
  std::uint8_t snapshots = 2;
};

struct Move {
  enum class Kind : std::uint8_t {
    VolumeSettles,  // attaching, detaching, creating is over
    HolderTerminated,
    EpochHolderTerminated,
    SnapshotCompletes,
    AgentStarts,
    InstanceBoots,  // how: the zone
    InstanceEnds,   // its fleet is gone, or it shuts down
    NoticeDelivered,
    DeadlineReached,
    Answer,       // how: see Way
    CallHappens,  // the awaited one of which no answer will come
    Woke,
    TrainerDies,
    TrainerStops,  // as asked; how = 1: without a checkpoint
    TrainerFinishes,
    TrainerSaves,
    TimePasses,
    LateCallHappens,
    HomeKept,        // a commit that was not waited for; how: kDone, kFails, kLost
    Wakes,           // a machine that stood still
    InstanceKilled,  // how: see Kill
    AgentKilled,
    // faults:
    NoticeShown,  // how 0: terminate; 1: stop; 2: only ten seconds
    NoticeWithdrawn,
    InstanceSpared,
    ShutdownAsked,
    TrainerCrashes,
    TrainerDeaf,
    Pauses,
    SnapshotFails,
    VolumeFails,
    VolumeVanishes,
    AttachmentHangs,
  } kind = Kind::TimePasses;
  std::uint8_t who = 0;  // an instance's place (1, 2), or an index
  std::uint8_t how = 0;
  std::uint8_t cost = 0;  // faults
};

enum Way : std::uint8_t { kDone, kStale, kUnseen, kFails, kRefused, kLost, kSpecial, kTimedOut };
// Bits: what was asked for happens before the end; it is in flight; a checkpoint is torn.
enum Kill : std::uint8_t { kAfter = 1, kInFlight = 2, kTorn = 4 };

// The first one is what happens when nothing goes wrong. None: the end.
std::vector<Move> moves(const Node& node, const Limits& limits);
// Changes `node` into a normal one; node.broken says which promise does not hold.
void apply(Node& node, const Move& move);
Time next_time(const Node& node);  // when the next thing is due of itself
// A line for a person.
std::string describe(const Node& before, const Move& move, const Node& after);

template <class... Commands>
bool is(const decide::Command& command) {
  return (std::holds_alternative<Commands>(command) || ...);
}

}  // namespace spotter::explore
