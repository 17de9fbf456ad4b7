// Which objects an epoch has, and in which order: the same on every instance and after every
// restart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace spotter::data {

// This instance's part of the objects: those whose number is `index` modulo `count`.
struct Shard {
  std::size_t index = 0;
  std::size_t count = 1;
};

// Numbers 0 .. count - 1 in an order that depends on seed and epoch only.
std::vector<std::uint32_t> shuffled(std::size_t count, std::uint64_t seed, std::uint64_t epoch);

// How many of `objects` objects are in the shard.
std::size_t share(std::size_t objects, const Shard& shard);

}  // namespace spotter::data
