// Decides what becomes of the difference between the directory and its newest generation, while no
// trainer runs. Pure: the caller supplies the evidence on each file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spotter::guard {

// The way in which the trainer ended, as far as it is known.
enum class End : std::uint8_t {
  Unwatched,  // none ran since: a person changed what is different
  Finished,   // exit status 0
  Stopped,    // 75, as libspotter does it: it had been asked to stop, and did
  Failed,     // by itself, with another status
  Killed,
  Lost,  // nobody saw it: the machine was lost, or the guard
};

enum class Proof : std::uint8_t {
  Whole,    // its writer closed it, or its own format shows that all of it is there
  Unknown,  // neither
  Torn,     // its own format shows that a part is missing
};

struct Difference {
  enum class What : std::uint8_t { New, Changed, Missing };
  std::string name;
  What what = What::New;
  bool companion = false;  // of a checkpoint: a link, or a small file that may name one
  Proof proof = Proof::Unknown;
  std::string why;       // of a torn one
  bool newest = false;   // of the checkpoint that the generation ended with
  bool current = false;  // of the set that was being written (moments.hpp)
};

struct Plan {
  bool back = false;               // the newest generation is put back, but for what is taken up
  std::vector<std::string> away;   // names to be put away together
  std::vector<std::string> taken;  // what becomes the next generation: new, changed and missing
  std::string why;                 // of `away`, for a person
};

// `complete`: the set that was being written lacks nothing that sets usually have.
Plan plan(const std::vector<Difference>& differences, End end, bool complete);

}  // namespace spotter::guard
