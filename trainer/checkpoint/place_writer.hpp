// Copies become checkpoints of one place. Parts that are as they were in the checkpoint before
// (frozen layers) are linked, not written again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "agent/wire/result.hpp"
#include "trainer/checkpoint/copy.hpp"
#include "trainer/checkpoint/saver.hpp"

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

  bool unchanged(const Part& part, const std::string& sample) const;

  Place place_;
  // The last checkpoint that this writer itself made durable: only such a one is linked to.
  std::filesystem::path last_;
  Parts known_;
};

}  // namespace spotter::checkpoint
