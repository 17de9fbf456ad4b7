// Random numbers without a state: each is computed from what it is for. So a run resumed at any
// step draws the same numbers as the uninterrupted run, and no generator's state needs to be saved.
// std::shuffle and the standard distributions give different numbers on different libraries; these
// do not.
#pragma once

#include <cstdint>
#include <vector>

namespace spotter::train {

// What a random number is for: two purposes never share a sequence.
enum class Purpose : std::uint64_t { Weights = 1, Order = 2, Dropout = 3 };

// The seed of one sequence: `number` is the layer, the epoch or the step.
std::uint64_t sequence_seed(std::uint64_t seed, Purpose purpose, std::uint64_t number);

// SplitMix64 (https://prng.di.unimi.it/splitmix64.c), from a sequence's seed.
class Sequence {
 public:
  explicit Sequence(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // 0..bound-1, bound > 0. The bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound);
  double unit();  // [0, 1)

 private:
  std::uint64_t state_;
};

// A permutation of 0..count-1: the order of the examples in one epoch.
std::vector<std::uint32_t> epoch_order(std::uint64_t seed, std::uint64_t epoch,
                                       std::uint32_t count);

}  // namespace spotter::train
