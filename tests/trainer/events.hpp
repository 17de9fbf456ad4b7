// The content of an event file of TensorBoard, apart from its times.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/trainer/scratch.hpp"

namespace spotter::test {

// Each record's event, without its first field, the time of day (a tag and eight bytes).
inline std::vector<std::string> events_in(const std::filesystem::path& directory) {
  const std::string bytes = read_file(directory / "events.out.tfevents.0.spotter");
  std::vector<std::string> events;
  for (std::size_t at = 0; at + 16 <= bytes.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    events.push_back(bytes.substr(at + 12 + 9, length - 9));
    at += 16 + length;
  }
  return events;
}

}  // namespace spotter::test
