#include "agent/data/order.hpp"

#include <numeric>
#include <utility>

namespace spotter::data {
namespace {

// SplitMix64 (Steele, Lea, Flood, 2014): the same on all platforms, unlike std::shuffle's.
std::uint64_t next(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15U;
  std::uint64_t value = state;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

// Uniform in [0, bound).
std::uint64_t below(std::uint64_t bound, std::uint64_t& state) {
  const std::uint64_t fair = ~std::uint64_t{0} - (~std::uint64_t{0} % bound + 1) % bound;
  std::uint64_t value = next(state);
  while (value > fair) value = next(state);
  return value % bound;
}

}  // namespace

std::vector<std::uint32_t> shuffled(std::size_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::uint64_t mixed = seed;
  std::uint64_t state = next(mixed) + epoch;
  for (std::size_t left = count; left > 1; --left) {
    std::swap(order[left - 1], order[below(left, state)]);
  }
  return order;
}

std::size_t share(std::size_t objects, const Shard& shard) {
  return objects > shard.index ? (objects - shard.index - 1) / shard.count + 1 : 0;
}

}  // namespace spotter::data
