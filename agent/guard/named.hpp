// What the files of a checkpoint say about its other files. Parsers of a trainer's bytes: no I/O,
// no recursion, memory no larger than what they are given.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace spotter::guard {

// The files that a `.metadata` of torch.distributed.checkpoint names: a pickle, of whose opcodes
// only the lengths are understood and nothing is carried out
// (https://github.com/python/cpython/blob/main/Lib/pickletools.py). None: it is cut off, or no such
// pickle.
std::optional<std::set<std::string>> names_in_pickle(std::string_view bytes,
                                                     std::string_view ending);

// The files that {"weight_map": {TENSOR: FILE}} of a `*.index.json` names. None: it is no JSON.
std::optional<std::set<std::string>> names_in_index(std::string_view text);

// Is every bracket and string closed that a JSON text opens, piece by piece? Python's own writer
// says NaN, which is no JSON: what the values are is not looked at. A NUL is in none: a block that
// was never written.
class Brackets {
 public:
  void add(std::string_view text);
  bool closed() const { return !in_string_ && depth_ == 0 && !hole_; }

 private:
  std::uint64_t depth_ = 0;
  bool in_string_ = false;
  bool hole_ = false;
  bool escaped_ = false;
};

}  // namespace spotter::guard
