#include "tests/explore/pack.hpp"

#include <utility>

#include "tests/explore/visitors.hpp"

namespace spotter::explore {

namespace {

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
  void place(std::uint8_t& it) { byte(it); }
  void zone(Zone& it) { byte(it.empty() ? 0 : it == zone_name(1) ? 2 : 1); }
  void generation(std::uint32_t& it) { byte(it); }
  void moves(std::uint32_t& it) { byte(it); }
  void version(std::int64_t& it) { byte(it + 1); }
  void epoch(std::uint32_t& it) { byte(it); }
};

// Writes one host by itself: the instances are itself and the other one.
struct HostWriter : Writer {
  std::uint8_t self;
  HostWriter(Packed& to, std::uint8_t host) : Writer(to), self(host) {}
  void instance(InstanceId& it) {
    const std::uint8_t number = number_of(it);
    byte(number == 1 || number == 2 ? (number == self ? 1 : 2) : number);
  }
};

struct Mirror : Visitor {
  static std::uint8_t other(std::uint8_t place) {
    return place == 1 || place == 2 ? static_cast<std::uint8_t>(3 - place) : place;
  }
  void instance(InstanceId& it) { it = instance_id(other(number_of(it))); }
  void place(std::uint8_t& it) { it = other(it); }
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
  void place(std::uint8_t& it) { it = byte(); }
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

}  // namespace

Packed pack(Node& node) {
  Packed bytes;
  bytes.reserve(256);
  Writer writer(bytes);
  walk(writer, node);
  return bytes;
}

void mirror(Node& node) {
  Mirror names;
  walk(names, node);
  std::swap(node.hosts[0], node.hosts[1]);
  node.mirrored = !node.mirrored;
}

Packed pack_host(Node& node, std::size_t place) {
  Packed bytes;
  bytes.reserve(128);
  HostWriter writer(bytes, static_cast<std::uint8_t>(place));
  walk(writer, node.hosts[place - 1]);
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
