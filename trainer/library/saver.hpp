// Checkpoints in the background. save() returns as soon as the state is copied to memory; a thread
// makes the copies durable, in order.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "trainer/library/checkpoint.hpp"

namespace spotter::checkpoint {

// A part's content in memory: consecutive pieces.
struct Source {
  std::string name;  // see is_part_name()
  std::vector<std::string_view> pieces;
};

// A directory of checkpoints. Several form tiers: each copy is written to all, in this order.
struct Place {
  std::filesystem::path directory;
  Retention retention;
};

// A copy that became durable.
struct Durable {
  std::size_t place = 0;  // index into Settings::places
  bool outlives = false;  // it is in the last place
  std::uint64_t step = 0;
  std::filesystem::path path;
  std::uint64_t bytes = 0;           // of the state
  std::uint64_t written = 0;         // of these; unchanged parts were linked
  std::chrono::nanoseconds stall{};  // how long training paused
  std::chrono::nanoseconds took{};   // from the begin of writing to durable
};

class Saver {
 public:
  struct Settings {
    // At least one; the fastest first. The last one is authoritative: any other that cannot be
    // written is no longer used, and no checkpoint fails by that.
    std::vector<Place> places;
    // Called from the writing thread; must not call back into this Saver.
    std::function<void(const Durable&)> durable;
    // Gets messages to a person about failures without consequences: a place that was dropped (also
    // from within open()), a checkpoint replaced by a later one.
    std::function<void(const std::string&)> trouble;
    // Bytes of memory that a second copy in flight may take now. Empty: what the machine and the
    // control groups of this process have left, less a tenth of the machine.
    std::function<std::uint64_t()> room;
  };

  // Takes the lock of each place; fails when another writer holds the last one's (writer.hpp).
  static Result<std::unique_ptr<Saver>> open(Settings settings);

  // Waits until all is durable, or has failed.
  virtual ~Saver() = default;

  // Copies the state and returns; `sources` may then change. At most two copies are in flight, and
  // one where there is no room for the second: another save waits. Fails when out of memory or for
  // an invalid name. `spent`: how long training already paused to make `sources`, as part of the
  // stall.
  virtual Result<void> save(std::uint64_t step, std::span<const Source> sources,
                            const nlohmann::json& meta, std::optional<double> metric,
                            std::chrono::nanoseconds spent = {}) = 0;

  // The memory that the next save() writes from, for those who can fetch the state to there: what
  // lies there as the next sources do, each from a multiple of kAlignment on, is not copied again.
  // Pinned, if CUDA is in use. Valid until that save(). Waits as save() does.
  virtual Result<char*> place(std::uint64_t bytes) = 0;

  // The failed write since the last call of this or of flush(), unless a later one became durable.
  // The checkpoints on disk are unharmed.
  virtual Result<void> failed() = 0;

  // Waits until all accepted copies are durable, or have failed; then returns failed().
  virtual Result<void> flush() = 0;

  // Drops a copy whose writing has not begun: a newer one follows, and time is short.
  virtual void drop_waiting() = 0;

  // Fails when another writer has taken the last place's lock since. From any thread.
  virtual Result<void> is_writer() const = 0;

  // Copies accepted and not yet durable: 0, 1, 2.
  virtual std::size_t pending() const = 0;
  // Those of them that drop_waiting() would keep: 0, 1.
  virtual std::size_t writing() const = 0;

  // Allocates memory for a state of so many bytes, in the background: otherwise the first save
  // waits for the kernel to clear it.
  virtual void reserve(std::uint64_t bytes) = 0;
};

}  // namespace spotter::checkpoint
