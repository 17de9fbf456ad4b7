// Copies become checkpoints of one place. Parts that are as they were (frozen layers) are linked,
// not written again: to the checkpoint before the last one, so that of two neighbours each has
// bytes of its own on the disk. A block that rots tears only one of them. Where only one is kept it
// is linked to that.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <string>

#include "agent/base/result.hpp"
#include "trainer/library/copy.hpp"
#include "trainer/library/saver.hpp"

namespace spotter::checkpoint {

class PlaceWriter {
 public:
  explicit PlaceWriter(Place place) : place_(std::move(place)) {}

  struct Written {
    std::filesystem::path path;
    std::uint64_t bytes = 0;  // without the linked ones
  };

  // Durable when it returns; then the retention is applied.
  Result<Written> write(const Copy& copy);

 private:
  struct Known {
    PartEntry entry;
    std::string sample;
  };
  using Parts = std::map<std::string, Known, std::less<>>;

  struct Made {
    std::filesystem::path path;
    Parts parts;
  };

  // The part of `made` that has these bytes.
  static const PartEntry* unchanged(const Made& made, const Part& part, const std::string& sample);

  Place place_;
  // The last checkpoints that this writer itself made durable, the newest last: only such are
  // linked to. Two, or one where only one is kept.
  std::deque<Made> made_;
};

}  // namespace spotter::checkpoint
