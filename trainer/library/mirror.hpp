// A remote copy of the newest checkpoint: it outlives the volume and its zone, so that a
// replacement elsewhere need not wait for a snapshot. Copied in the background from files that are
// already durable. Only the job's end, and what is left of a notice, wait for it (session.cpp): the
// volume is authoritative.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "trainer/library/checkpoint.hpp"

namespace spotter::checkpoint {

// Threading: any. In a forked child the inherited copy does nothing.
class Mirror {
 public:
  struct Settings {
    std::string place;  // s3://bucket/prefix
    Retention retention;
    // Called from the copying thread, with a message for a person, when a copy fails.
    std::function<void(const std::string&)> trouble;
  };
  using Open = std::function<Result<std::unique_ptr<Mirror>>(Settings)>;

  // Cancels a copy under way.
  virtual ~Mirror() = default;

  // Copies this durable checkpoint of this step. Drops one that still waits, as this is newer.
  virtual void offer(const std::filesystem::path& checkpoint, std::uint64_t step) = 0;

  // Waits until all offered ones are copied, or have failed. False: `at_most` was too short.
  virtual bool wait(std::chrono::nanoseconds at_most) = 0;

  // The newest one of a step after `after` that verifies; none: there is none. Adds those that do
  // not verify to `torn`. Fails when the place cannot be read: then nothing is known. `newer`: one
  // of them is of a newer Spotter.
  virtual Result<std::optional<Loaded>> newest(std::optional<std::uint64_t> after,
                                               std::vector<Torn>& torn) = 0;
};

}  // namespace spotter::checkpoint
