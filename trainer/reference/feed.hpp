// Random numbers without a state: each is computed from what it is for. So a run resumed at any
// step draws the same numbers as the uninterrupted run, and no generator's state needs to be saved.
// std::shuffle and the standard distributions give different numbers on different libraries; these
// do not.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "trainer/reference/dataset.hpp"

namespace spotter::train {

// The purpose of a random number: two never share a sequence.
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

// The input of each step: examples in memory, in an order computed from the seed, or the records of
// a channel as they come.

// The channels of `--data pipe:train,test`: RecordIO, an example a record, its label's byte before
// its pixels (scripts/pack-records makes them).
struct Channels {
  std::string training;
  std::string test;
};

// The test set is read whole, from the first epoch of its channel; of the training set only
// `examples` is known, how many an epoch has (0: as many as MNIST or CIFAR-10, whichever has
// records of this size).
Result<Dataset> read_piped(const Channels& channels, std::uint32_t examples);

class Feed {
 public:
  virtual ~Feed() = default;

  struct Batch {
    const Examples* examples = nullptr;
    std::span<const std::uint32_t> indices;
  };
  // The examples first, first + 1, ... of an epoch; valid until the next call. Steps come one after
  // the other. None: nothing came yet, and the trainer was asked to stop.
  virtual Result<std::optional<Batch>> batch(std::uint64_t epoch, std::uint32_t first,
                                             std::uint32_t count) = 0;

  // The part that the batches so far have consumed, for the checkpoint's meta.
  virtual nlohmann::json consumed() const = 0;
};

enum class Order : std::uint8_t { Shuffled, AsItLies };

// `examples` outlives it.
std::unique_ptr<Feed> feed_from_memory(const Examples& examples, Order order, std::uint64_t seed);

// Goes on where `meta`, of the checkpoint that is restored, says; from the begin where it is empty.
Result<std::unique_ptr<Feed>> feed_from_channel(const std::string& channel, const Dataset& dataset,
                                                const nlohmann::json& meta);

}  // namespace spotter::train
