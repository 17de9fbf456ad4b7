// The abstract world that `explore` searches: what of EC2 and of the host the move, the ledger and
// the end of a job depend on, and nothing else. A Node is one state of it, together with the real
// core's states. Values only, so that a branch of the search is a copy.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "agent/decide/step.hpp"

namespace spotter::explore {

using decide::kNever;

// It is always this late: time passes by moving every stored time back (pack.hpp). All times of the
// policy are multiples of ten seconds, small ones, so that few orders of them are different.
constexpr Time kNow{std::chrono::hours(1000)};
const decide::Policy& small_policy();
void use_fence();   // from now on the policy has one
void use_bucket();  // and the job's home is in one

// Instance ids are i-1 and i-2, the two places in which an instance may run; an instance that is
// gone and still has a volume is one of these.
enum : std::uint8_t { kNobody = 0, kDying = 3, kTerminated = 4, kStopped = 5 };

struct Contents {  // of a disk; copying it is a snapshot
  bool blank = true;
  bool torn = false;  // a checkpoint that was being written is there, beside the whole ones
  bool result = false;
  std::int64_t newest = -1;  // version of the newest whole checkpoint
  decide::Ledger ledger;
};

struct Face {  // of a volume: what a look at EC2 shows and can show late
  bool there = false;
  bool discoverable = false;
  bool done = false;
  decide::VolumeState state = decide::VolumeState::Creating;
  decide::Role role = decide::Role::State;
  decide::AttachmentState attachment = decide::AttachmentState::None;
  std::uint8_t holder = kNobody;
  std::uint32_t generation = 0;
};

struct Volume {
  std::uint8_t id = 0;  // 0: this slot is free
  Face face;
  Face old;                 // what a stale look still shows, until ...
  Time old_until = kNever;  // ... this; kNever: nothing is stale
  std::uint8_t zone = 0;
  std::uint8_t parent = 0;
  std::uint8_t from = 0;
  std::uint8_t attempt = 0;  // of the ClientToken that made it
  std::uint32_t moves = 0;
  bool to_format = false;
  bool stuck = false;  // this attachment never gets ready
  Time due = kNever;   // what is going on (creating, attaching, detaching) is over by then
  Contents contents;
};

struct Snapshot {
  std::uint8_t id = 0;
  bool there = false;
  bool old_there = false;
  Time old_until = kNever;
  decide::SnapshotState state = decide::SnapshotState::Pending;
  std::uint8_t parent = 0;
  decide::Taken taken = decide::Taken::Moving;
  std::uint8_t rank = 0;  // in order of its start
  std::uint32_t generation = 0;
  std::uint32_t moves = 0;
  std::array<std::uint8_t, 2> tokens{};  // the attempts that were used, a bit each, for each zone
  Contents image;
};

// A question of the agent that is not answered yet.
struct Pending {
  enum class Lost : std::uint8_t { No, Perhaps, Settled };
  bool any = false;
  bool abandoned = false;
  Lost lost = Lost::No;  // no answer will come: carried out later, perhaps; or that is settled
  Time deadline = kNever;
  decide::Command command;
};

// A call to EC2 whose asker does not wait any more. It may be carried out until its deadline.
struct Late {
  bool any = false;
  std::uint8_t caller = 0;  // kNobody: it is dead
  Time deadline = kNever;
  decide::Command command;
  Contents contents;  // of a commit: what it names
};

struct Trainer {
  enum class State : std::uint8_t { None, Running, Ended } state = State::None;
  bool success = false;
  bool as_asked = false;
  bool asked = false;    // to stop
  bool doomed = false;   // by SIGKILL
  bool deaf = false;     // does not get the request to stop
  bool watched = false;  // the agent gets TrainerEnded
  std::int64_t step = -1;
};

// A session's knowledge of a home in a bucket, beside its state (act::Home).
struct AtHome {
  std::uint32_t wrote = 0;  // the last epoch of its own
  std::uint32_t held = 0;   // the one before it, where that was its own, too
  bool keeping = false;     // a commit is under way that is not waited for
  std::uint32_t keeping_epoch = 0;
};

struct Host {
  bool alive = false;
  std::uint8_t zone = 0;
  std::uint8_t mounted = 0;
  bool read_only = false;
  Trainer trainer;
  bool agent = false;  // is its process there?
  bool left = false;   // it ended because it was asked to
  decide::State state;
  Pending pending;
  // The notice that the metadata service shows.
  bool noticed = false;
  bool notified = false;  // the agent has seen it
  bool stop = false;      // instead of terminate
  Time deadline = kNever;
  // The working copy of a home in a bucket, and the epoch that brought or kept it; 0: none.
  Contents copy;
  std::uint32_t mark = 0;
  AtHome home;
  bool paused = false;  // it stands still, and its lease is over
};

struct Node {
  std::array<Volume, 5> volumes;
  std::array<Snapshot, 5> snapshots;
  std::array<Late, 2> late;
  std::array<Host, 2> hosts;
  bool cancelled = false;       // the fleet
  bool scaled_to_zero = false;  // given up
  decide::Epoch epoch;          // of a job with a fence; its holder apart:
  std::uint8_t epoch_holder = kNobody;
  Contents committed;         // what the head of a home in a bucket names
  bool was_paused = false;    // a machine, ever
  std::int64_t durable = -1;  // the newest version that a trainer called durable
  // Trainers that failed since then (2: or more), and since the last one that the account knows of.
  std::uint8_t in_vain_since = 0;
  std::uint8_t in_vain = 0;
  bool refused = false;  // a permission was missing at the end: what is left is excused
  // The rest is no part of the node:
  const char* broken = nullptr;  // the promise that does not hold
  bool mirrored = false;         // the two places have each other's names (pack.hpp)
};

// The job as its user submits it: a blank tagged volume in zone a, a fleet of one.
Node first_node();

inline VolumeId volume_id(std::uint8_t number) {
  const char text[] = {'v', 'o', 'l', '-', static_cast<char>('0' + number), 0};
  return number ? VolumeId(text) : VolumeId();
}
inline SnapshotId snapshot_id(std::uint8_t number) {
  const char text[] = {'s', 'n', 'a', 'p', '-', static_cast<char>('0' + number), 0};
  return number ? SnapshotId(text) : SnapshotId();
}
inline InstanceId instance_id(std::uint8_t number) {
  const char text[] = {'i', '-', static_cast<char>('0' + number), 0};
  return number ? InstanceId(text) : InstanceId();
}
inline Zone zone_name(std::uint8_t number) { return number ? "b" : "a"; }

template <std::size_t Capacity>
std::uint8_t number_of(const ShortText<Capacity>& id) {
  return id.empty() ? 0 : static_cast<std::uint8_t>(id.view().back() - '0');
}

inline Volume* find_volume(Node& node, std::uint8_t id) {
  for (Volume& it : node.volumes) {
    if (id && it.id == id) return &it;
  }
  return nullptr;
}
inline Snapshot* find_snapshot(Node& node, std::uint8_t id) {
  for (Snapshot& it : node.snapshots) {
    if (id && it.id == id) return &it;
  }
  return nullptr;
}

// Is something going on with it that ends of itself?
inline bool is_changing(const Volume& it) {
  using decide::AttachmentState;
  if (!it.id || !it.face.there) return false;
  return it.face.state == decide::VolumeState::Creating ||
         (it.face.attachment == AttachmentState::Attaching && !it.stuck) ||
         it.face.attachment == AttachmentState::Detaching;
}

inline void broken(Node& node, const char* words) {
  if (!node.broken) node.broken = words;
}

}  // namespace spotter::explore
