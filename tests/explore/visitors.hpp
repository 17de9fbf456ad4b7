// The visitors of the walk (archive.hpp) that several sources use.
#pragma once

#include <bit>
#include <cstdio>
#include <cstdlib>

#include "tests/explore/archive.hpp"

namespace spotter::explore {

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
  void place(std::uint8_t&) {}
  void zone(Zone&) {}
  void generation(std::uint32_t&) {}
  void moves(std::uint32_t&) {}
  void version(std::int64_t&) {}
  void epoch(std::uint32_t&) {}
};

// A number of which one byte, and a time of which two, do not suffice: the search would mistake
// different nodes for one another, so it ends.
[[noreturn]] inline void too_large(const char* what, long long value) {
  std::fprintf(stderr, "explore: %s %lld does not fit\n", what, value);
  std::abort();
}

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
inline Map order(std::uint64_t set, bool keep_gaps) {
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

}  // namespace spotter::explore
