// What lies in a folder that is one checkpoint. Whoever trains made it: it is read by handles, no
// link is followed, and what is more than a checkpoint has is refused before it costs much.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "agent/guard/place.hpp"
#include "agent/guard/refusal.hpp"

namespace spotter::guard {

// In one folder, its subfolders included: a thousand ranks write four files each. Each costs a look
// at every start, and an fsync and a sum when it is recorded.
inline constexpr std::size_t parts_limit = 16384;
// checkpoint-500/pytorch_model_fsdp_0/__0_0.distcp has 2; Orbax's parameters in folders have 4.
inline constexpr int parts_depth = 8;

struct Contents {
  std::vector<Found> parts;          // every file, by its name below the folder, sorted
  std::vector<std::string> folders;  // every subfolder, each after the one that it lies in
  std::uint64_t bytes = 0;           // of all parts
  std::int64_t mtime_ns = 0;         // of the newest part

  const Found* find(std::string_view name) const;
  std::size_t bytes_of_names() const;
  friend bool operator==(const Contents&, const Contents&) = default;
};

// Refuses as Odd: a link, a FIFO, a device or a socket in it, a name that JSON cannot hold, more
// than the limits above. As Failed: what is there and cannot be looked at.
Result<Contents, Refusal> read_contents(const Beneath& folder);

// The folders that are one checkpoint each, in the order of their names.
struct Unit {
  std::string name;  // relative to the place's directory
  Result<Contents, Refusal> contents;
};
// Directly below the directory, with a name that `folders` matches; a link is none. Fails where the
// directory cannot be listed, and for more than units_limit folders, 150,000 files or
// 32 MiB of names in all.
Result<std::vector<Unit>> list_units(const Place& place);

}  // namespace spotter::guard
