// Checkpoints behind the training's back. save() returns as soon as the state is copied to memory;
// a thread of its own makes the copies durable, in order.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "trainer/library/retention.hpp"

namespace spotter::checkpoint {

// A part's content as it lies in memory: pieces, one after the other.
struct Source {
  std::string name;  // see is_part_name()
  std::vector<std::string_view> pieces;
};

// A directory of checkpoints. Several make tiers: memory is copied to each, in this order.
struct Place {
  std::filesystem::path directory;
  Retention retention;
};

// What became durable.
struct Durable {
  std::size_t place = 0;  // index into Settings::places
  bool outlives = false;  // it is the last of them
  std::uint64_t step = 0;
  std::filesystem::path path;
  std::uint64_t bytes = 0;           // of the state
  std::uint64_t written = 0;         // of these; the rest was linked, being as in the one before
  std::chrono::nanoseconds stall{};  // how long the training stood still
  std::chrono::nanoseconds took{};   // from the begin of writing to durable
};

class Saver {
 public:
  struct Settings {
    // At least one; the fastest first. The last one counts: another that cannot be written to is
    // not used any more, and costs no checkpoint.
    std::vector<Place> places;
    // Called from the writing thread; must not call back into this Saver.
    std::function<void(const Durable&)> durable;
    // For a person to read, of what failed and costs nothing: a place that was dropped (also from
    // within open()), a checkpoint that a later one made up for.
    std::function<void(const std::string&)> trouble;
  };

  // Takes the lock of each place; fails when another writer has that of the last one
  // (writer_lock.hpp).
  static Result<std::unique_ptr<Saver>> open(Settings settings);

  // Waits until all is durable, or has failed.
  virtual ~Saver() = default;

  // Copies the state, and returns; `sources` may change afterwards. Two copies at most are in
  // flight: a third save waits for a place. Fails when there is no memory or a name is not usable.
  // `spent`: how long the training stood still before, to make `sources`: part of the stall.
  virtual Result<void> save(std::uint64_t step, std::span<const Source> sources,
                            const nlohmann::json& meta, std::optional<double> metric,
                            std::chrono::nanoseconds spent = {}) = 0;

  // The write that failed since the last call of this or of flush(), unless a later one became
  // durable. The checkpoints on disk are untouched.
  virtual Result<void> failed() = 0;

  // Waits until all that was accepted is durable, or has failed; then as failed().
  virtual Result<void> flush() = 0;

  // Forgets a copy that nobody has begun to write: a newer one follows, and time is short.
  virtual void drop_waiting() = 0;

  // Copies accepted and not yet durable: 0, 1, 2.
  virtual std::size_t pending() const = 0;
  // Those of them that drop_waiting() would leave: 0, 1.
  virtual std::size_t writing() const = 0;

  // Prepares memory for states of so many bytes, in the background: else the first two saves wait
  // for the kernel to clear it.
  virtual void reserve(std::uint64_t bytes) = 0;
};

}  // namespace spotter::checkpoint
