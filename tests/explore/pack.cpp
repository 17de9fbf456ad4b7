#include "tests/explore/pack.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "tests/explore/archive.hpp"
#include "tests/explore/world.hpp"

namespace spotter::explore {
namespace {

// A visitor that changes nothing; the others override what they are about.
struct Visitor {
  void flag(bool&) {}
  template <class T>
  void small(T&) {}
  void time(Time&) {}
  void volume(VolumeId&) {}
  void volume(std::uint8_t&) {}
  void snapshot(SnapshotId&) {}
  void snapshot(std::uint8_t&) {}
  void instance(InstanceId&) {}
  void zone(Zone&) {}
  void generation(std::uint32_t&) {}
  void moves(std::uint32_t&) {}
  void version(std::int64_t&) {}
  void epoch(std::uint32_t&) {}
};

// A number of which one byte, and a time of which two, do not suffice: the search would mistake
// different nodes for one another, so it ends.
[[noreturn]] void too_large(const char* what, long long value) {
  std::fprintf(stderr, "explore: %s %lld does not fit\n", what, value);
  std::abort();
}

constexpr std::int16_t kPackedNever = INT16_MAX;
constexpr Duration kTimeUnit{10};

struct Writer : Visitor {
  Packed& bytes;
  // Flags are collected eight to a byte.
  std::size_t flags_at = 0;
  int flags_used = 8;

  explicit Writer(Packed& to) : bytes(to) {}
  void byte(long long value) {
    if (value < 0 || value > 255) too_large("a number", value);
    bytes.push_back(static_cast<std::uint8_t>(value));
  }
  void flag(bool& it) {
    if (flags_used == 8) {
      flags_at = bytes.size();
      bytes.push_back(0);
      flags_used = 0;
    }
    if (it) bytes[flags_at] |= static_cast<std::uint8_t>(1U << flags_used);
    ++flags_used;
  }
  template <class T>
  void small(T& it) {
    byte(static_cast<long long>(it));
  }
  void time(Time& it) {
    std::int16_t packed = kPackedNever;
    if (it != kNever) {
      const auto units = (it - kNow) / kTimeUnit;
      if (units <= INT16_MIN || units >= INT16_MAX) too_large("a time", units);
      packed = static_cast<std::int16_t>(units);
    }
    byte(static_cast<std::uint16_t>(packed) >> 8), byte(packed & 0xff);
  }
  void volume(VolumeId& it) { byte(number_of(it)); }
  void volume(std::uint8_t& it) { byte(it); }
  void snapshot(SnapshotId& it) { byte(number_of(it)); }
  void snapshot(std::uint8_t& it) { byte(it); }
  void instance(InstanceId& it) { byte(number_of(it)); }
  void zone(Zone& it) { byte(it.empty() ? 0 : it == zone_name(1) ? 2 : 1); }
  void generation(std::uint32_t& it) { byte(it); }
  void moves(std::uint32_t& it) { byte(it); }
  void version(std::int64_t& it) { byte(it + 1); }
  void epoch(std::uint32_t& it) { byte(it); }
};

struct Reader : Visitor {
  const std::uint8_t* next;
  const std::uint8_t* flags = nullptr;
  int flags_used = 8;

  explicit Reader(const std::uint8_t* bytes) : next(bytes) {}
  std::uint8_t byte() { return *next++; }
  void flag(bool& it) {
    if (flags_used == 8) {
      flags = next++;
      flags_used = 0;
    }
    it = (*flags >> flags_used++) & 1U;
  }
  template <class T>
  void small(T& it) {
    it = static_cast<T>(byte());
  }
  void time(Time& it) {
    const int high = byte();
    const auto packed = static_cast<std::int16_t>(high << 8 | byte());
    it = packed == kPackedNever ? kNever : kNow + packed * kTimeUnit;
  }
  void volume(VolumeId& it) { it = volume_id(byte()); }
  void volume(std::uint8_t& it) { it = byte(); }
  void snapshot(SnapshotId& it) { it = snapshot_id(byte()); }
  void snapshot(std::uint8_t& it) { it = byte(); }
  void instance(InstanceId& it) { it = instance_id(byte()); }
  void zone(Zone& it) {
    const std::uint8_t packed = byte();
    it = packed ? zone_name(packed - 1) : Zone();
  }
  void generation(std::uint32_t& it) { it = byte(); }
  void moves(std::uint32_t& it) { it = byte(); }
  void version(std::int64_t& it) { it = byte() - 1; }
  void epoch(std::uint32_t& it) { it = byte(); }
};

struct Shift : Visitor {
  Duration by;
  explicit Shift(Duration duration) : by(duration) {}
  void time(Time& it) {
    if (it != kNever) it -= by;
  }
};

using Set = std::uint64_t;  // of numbers below 64

struct Collector : Visitor {
  Set volumes = 0, snapshots = 0, generations = 0, moved = 0, versions = 0, epochs = 0;
  static void add(Set& set, std::int64_t value) {
    if (value < 0 || value >= 64) too_large("an order", value);
    set |= Set{1} << value;
  }
  void volume(VolumeId& it) { add(volumes, number_of(it)); }
  void volume(std::uint8_t& it) { add(volumes, it); }
  void snapshot(SnapshotId& it) { add(snapshots, number_of(it)); }
  void snapshot(std::uint8_t& it) { add(snapshots, it); }
  void generation(std::uint32_t& it) { add(generations, it); }
  void moves(std::uint32_t& it) { add(moved, it); }
  void version(std::int64_t& it) { add(versions, it + 1); }
  void epoch(std::uint32_t& it) { add(epochs, it); }
};

using Map = std::array<std::uint8_t, 64>;

// The values of `set` in their order, from 0. A gap of more than one stays a gap, of one.
Map order(std::uint64_t set, bool keep_gaps) {
  Map map{};
  std::uint8_t next = 1;
  for (std::uint64_t left = set & ~std::uint64_t{1}; left != 0; left &= left - 1) {
    const auto value = static_cast<unsigned>(std::countr_zero(left));
    const bool gap = keep_gaps && value != 1 && !((set >> (value - 1)) & 1U);
    next = static_cast<std::uint8_t>(next + (gap ? 1 : 0));
    map[value] = next++;
  }
  return map;
}

struct Renamer : Visitor {
  Map volumes{}, snapshots{}, generations{}, moved{}, versions{}, epochs{};
  void volume(VolumeId& it) { it = volume_id(volumes[number_of(it)]); }
  void volume(std::uint8_t& it) { it = volumes[it]; }
  void snapshot(SnapshotId& it) { it = snapshot_id(snapshots[number_of(it)]); }
  void snapshot(std::uint8_t& it) { it = snapshots[it]; }
  void generation(std::uint32_t& it) { it = generations[it]; }
  void moves(std::uint32_t& it) { it = moved[it]; }
  void version(std::int64_t& it) { it = versions[static_cast<std::size_t>(it + 1)] - 1; }
  void epoch(std::uint32_t& it) { it = epochs[it]; }
};

void at_least(Time& it, Time limit) {
  if (it != kNever && it < limit) it = limit;
}
void forget(Time& it, Time limit) {
  if (it != kNever && it <= limit) it = kNever;
}

// Past times count up to the limit that they are compared with.
void normalise_times(decide::State& state, const decide::Policy& policy) {
  decide::Facts& facts = state.facts;
  const Duration bound = policy.consistency_bound;
  forget(facts.move.committed_at, kNow - bound);
  if (facts.move.committed_at == kNever) facts.move.original = facts.move.committed = {};
  forget(facts.holding.claimed_at, kNow - bound - 2 * policy.commit_call);
  at_least(facts.move.parent_gone_since, kNow - 2 * bound);
  at_least(facts.fence.holder_lost_since, kNow - bound);
  at_least(facts.home.keeping_since, kNow - policy.keep_home);
  if (facts.move.parent_gone_since == kNever) facts.move.elected = {};
  at_least(facts.holding.changing_since, kNow - policy.attaching_limit);
  at_least(facts.tidying.since, kNow - policy.tidy_limit);
  at_least(facts.tidying.candidates_free_since, kNow - bound - policy.ec2_call);
  facts.holding.attach_attempt %= policy.attach_tries;
  at_least(facts.move.snapshot_asked_ahead_at, kNow - bound - policy.ec2_call);
  if (facts.holding.released_at == kNever || facts.holding.released_at <= kNow - bound) {
    facts.holding.released_at = kNever;
    facts.holding.released = {};
  }
  at_least(facts.move.created_at, kNow - bound);
  forget(facts.move.snapshot_asked_at, kNow - bound);
  facts.trouble.blocked = std::min(facts.trouble.blocked, policy.blocked_limit);
  at_least(state.wake_at, kNow);
  if (facts.exit.notice) at_least(facts.exit.notice->deadline, kNow - policy.spared_after);
  if (auto* training = std::get_if<decide::Training>(&state.stage)) {
    at_least(training->next_ledger, kNow);
    at_least(training->next_tidy, kNow);
    at_least(training->next_snapshot, kNow);
  }
  if (auto* tidying = std::get_if<decide::Tidying>(&state.stage)) {
    at_least(tidying->quiet_since, kNow - bound);
    at_least(tidying->marked_at, kNow - 3 * bound);
    tidying->failures = 0;  // every pause is as long as any other here
  }
  if (auto* stopping = std::get_if<decide::Stopping>(&state.stage))
    at_least(stopping->kill_at, kNow);
  if (auto* committing = std::get_if<decide::Committing>(&state.stage))
    at_least(committing->asked_at, kNow - bound);
}

// Counters count up to the limit that they are compared with; those that only lengthen a pause are
// nothing here, where all pauses are the same.
void normalise_counters(decide::State& state, const decide::Policy& policy) {
  state.facts.trouble.retries = std::min(state.facts.trouble.retries, 3U);
  state.facts.trouble.crashes = 0;
  std::visit(
      [&](auto& stage) {
        if constexpr (requires { stage.failures; }) stage.failures = 0;
        if constexpr (requires { stage.kills; }) {
          stage.kills = std::min(stage.kills, policy.stuck_tries);
        }
        if constexpr (requires { stage.tries; }) {
          stage.tries = std::min(stage.tries, policy.stuck_tries);
        }
      },
      state.stage);
}

constexpr std::uint32_t kStartsKept = 2;
constexpr std::uint32_t kMostAttempts = 7;  // as many tokens are kept for a snapshot
// Longer than a poll: what is being created, attached or detached is seen at that.
constexpr Duration kSettles = std::chrono::seconds(10);

// Numbers only grow: what is not the next one is never written, and another's epoch is read again.
void normalise_epochs(Node& node) {
  for (Late& it : node.late) {
    const auto* write = it.any ? std::get_if<decide::WriteEpoch>(&it.command) : nullptr;
    if (write && write->epoch.number != node.epoch.number + 1) it = {};
  }
  if (in_bucket()) return;  // there a session compares what it knows with what it finds
  for (std::size_t i = 0; i < node.hosts.size(); ++i) {
    decide::Facts::Fence& fence = node.hosts[i].state.facts.fence;
    const InstanceId self = instance_id(static_cast<std::uint8_t>(i + 1));
    if (fence.ours != node.epoch.number) fence.ours = 0;
    if (fence.epoch.holder != self) fence.epoch = {};
  }
}

void normalise_world(Node& node) {
  for (Volume& it : node.volumes) {
    if (it.old_until <= kNow) it.old_until = kNever;
    if (it.old_until == kNever) it.old = {};
    const bool seen = it.face.there || it.old.there;
    if (!seen) it = {};
    if (it.id && !it.face.there) it.contents = {};
    if (it.face.attachment == decide::AttachmentState::None) it.stuck = false;
    if (!is_changing(it)) {
      it.due = kNever;
    } else if (it.due == kNever) {
      it.due = kNow + kSettles;
    }
    at_least(it.due, kNow);
  }
  for (Snapshot& it : node.snapshots) {
    if (it.old_until <= kNow) it.old_until = kNever;
    if (it.old_until == kNever) it.old_there = false;
    if (!it.there && !it.old_there) it = {};
    if (it.id && !it.there) it.image = {};
  }
  for (Late& it : node.late) {
    if (it.any && it.deadline <= kNow) it = {};
  }
  if (!node.late[0].any && node.late[1].any) std::swap(node.late[0], node.late[1]);
  const auto filled = [](const auto& a, const auto& b) {
    return (a.id ? a.id : 99) < (b.id ? b.id : 99);
  };
  std::sort(node.volumes.begin(), node.volumes.end(), filled);
  std::sort(node.snapshots.begin(), node.snapshots.end(), filled);
  std::array<Snapshot*, 5> by_rank{};
  for (std::size_t i = 0; i < by_rank.size(); ++i) by_rank[i] = &node.snapshots[i];
  std::sort(by_rank.begin(), by_rank.end(),
            [](const auto* a, const auto* b) { return a->rank < b->rank; });
  std::uint8_t rank = 0;
  for (Snapshot* it : by_rank) it->rank = it->id ? ++rank : 0;
}

void limit_starts(decide::Ledger& it) {
  it.starts_without_progress = std::min(it.starts_without_progress, kStartsKept);
}

}  // namespace

void normalise(Node& node) {
  static const decide::Policy policy = small_policy();
  normalise_world(node);
  normalise_epochs(node);
  for (Host& it : node.hosts) {
    if (!it.alive) it = {};
    limit_starts(it.copy.ledger);
    if (!it.agent) {
      it.state = {};
      it.pending = {};
      it.home = {};
      continue;
    }
    if (it.state.facts.move.create_attempt > kMostAttempts)
      broken(node, "copies are made without end");
    normalise_times(it.state, policy);
    normalise_counters(it.state, policy);
    limit_starts(it.state.facts.progress.ledger);
  }
  limit_starts(node.committed.ledger);
  for (Late& it : node.late) limit_starts(it.contents.ledger);
  for (Volume& it : node.volumes) limit_starts(it.contents.ledger);
  Collector seen;
  walk(seen, node);
  Renamer renamer;
  renamer.volumes = order(seen.volumes, false);
  renamer.snapshots = order(seen.snapshots, false);
  renamer.generations = order(seen.generations, true);
  renamer.moved = order(seen.moved, true);
  renamer.versions = order(seen.versions, false);
  renamer.epochs = order(seen.epochs, true);
  walk(renamer, node);
}

Packed pack(Node& node) {
  Packed bytes;
  bytes.reserve(256);
  Writer writer(bytes);
  walk(writer, node);
  return bytes;
}

Node unpack(const std::uint8_t* bytes) {
  Node node;
  Reader reader(bytes);
  walk(reader, node);
  for (Host& it : node.hosts) {
    decide::State& state = it.state;
    state.effects_made = 1;
    if (state.facts.identity.fleet_known)
      state.facts.identity.fleet = {FleetKind::SpotFleet, "sfr-1"};
  }
  return node;
}

void pass_time(Node& node, Duration by) {
  Shift shift(by);
  walk(shift, node);
}

namespace {

std::uint8_t above(Set set) {
  const auto free = static_cast<std::uint8_t>(std::bit_width(set | 1U));
  if (free > 9) too_large("a name", free);
  return free;
}

}  // namespace

std::uint8_t unused_volume(Node& node) {
  Collector seen;
  walk(seen, node);
  return above(seen.volumes);
}

std::uint8_t unused_snapshot(Node& node) {
  Collector seen;
  walk(seen, node);
  return above(seen.snapshots);
}

void shift_volumes(Node& node) {
  Renamer renamer;
  for (std::uint8_t i = 0; i < 64; ++i) {
    renamer.volumes[i] = static_cast<std::uint8_t>(i ? i + 1 : 0);
    renamer.snapshots[i] = renamer.generations[i] = renamer.moved[i] = i;
    renamer.versions[i] = renamer.epochs[i] = i;
  }
  walk(renamer, node);
}

}  // namespace spotter::explore
