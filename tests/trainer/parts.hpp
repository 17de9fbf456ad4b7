// One part of a checkpoint, as a trainer without libspotter would write and read it.
#pragma once

#include <string>

#include "trainer/library/checkpoint.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/writer.hpp"

namespace spotter::checkpoint {

inline Result<void> add_part(Writer& writer, const std::string& name, std::string_view bytes) {
  const Part part{name, bytes};
  return writer.add_parts({&part, 1});
}

// Fails for a part that is not there, or has other bytes than the manifest says.
inline Result<std::string> read_part(const Checkpoint& checkpoint, std::string_view name) {
  for (const auto& part : checkpoint.parts) {
    if (part.name != name) continue;
    std::string bytes;
    const auto read = read_pieces(checkpoint.path / part.name,
                                  [&](std::string_view piece) { bytes.append(piece); });
    if (!read) return tl::unexpected(read.error());
    if (bytes.size() != part.bytes || sum_of(bytes) != part.xxh3_128)
      return failure(part.name + " changed since it was verified");
    return bytes;
  }
  return failure("no part " + std::string(name));
}

}  // namespace spotter::checkpoint
