// The tags of volumes and snapshots, as the simulated agents read them.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

// The tags of one thing, read in one pass: surveys of the storage take most of a run's time.
struct Marks {
  std::string_view name, job, role, parent, lineage, moves, storage, generation, ahead, format,
      done;
  bool found() const { return name == kDiscoveryValue; }
  // Has the job's name, and was not made for other storage.
  bool of_the_job() const { return job == kJob && (storage.empty() || storage == kStorage); }
};

// The place of a key; in the simulator there are no others, so that one letter tells them apart.
inline std::string_view* place_of(std::string_view key, Marks& marks) {
  constexpr std::string_view prefix = "spotter:";
  if (key.size() <= prefix.size()) return &marks.name;
  switch (key[prefix.size()]) {
    case 'j':
      return &marks.job;
    case 'r':
      return &marks.role;
    case 'p':
      return &marks.parent;
    case 'l':
      return &marks.lineage;
    case 'm':
      return &marks.moves;
    case 's':
      return &marks.storage;
    case 'g':
      return &marks.generation;
    case 'a':
      return &marks.ahead;
    case 'f':
      return &marks.format;
    default:
      return &marks.done;
  }
}

inline Marks marks_of(const world::Tags& tags) {
  Marks marks;
  for (const auto& [key, value] : tags) *place_of(key, marks) = value;
  return marks;
}

inline std::uint32_t number_in(std::string_view text) {
  std::uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace spotter::simulate
