// What each step is trained on: examples in memory, in an order computed from the seed, or the
// records of a channel as they come.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "agent/base/result.hpp"
#include "trainer/reference/dataset.hpp"

namespace spotter::train {

// Of `--data pipe:train,test`: RecordIO, an example a record, its label's byte before its pixels
// (scripts/pack-records makes them).
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

  // For the checkpoint's meta: what the batches so far have consumed.
  virtual nlohmann::json consumed() const = 0;
};

enum class Order : std::uint8_t { Shuffled, AsItLies };

// `examples` outlives it.
std::unique_ptr<Feed> feed_from_memory(const Examples& examples, Order order, std::uint64_t seed);

// Goes on where `meta`, of the checkpoint that is restored, says; from the begin where it is empty.
Result<std::unique_ptr<Feed>> feed_from_channel(const std::string& channel, const Dataset& dataset,
                                                const nlohmann::json& meta);

}  // namespace spotter::train
