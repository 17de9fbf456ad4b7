// A copy of the newest checkpoint far away: it outlives the volume and its zone, so that a
// replacement elsewhere need not wait for a snapshot. It is made behind the training's back from
// the files that are durable already, and nothing waits for it: what counts is the volume.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/base/result.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/retention.hpp"

namespace spotter::checkpoint {

// Threading: any. A forked child's copy of one does nothing.
class Mirror {
 public:
  struct Settings {
    std::string place;  // s3://bucket/prefix
    Retention retention;
    // Called from the copying thread, for a person to read: a checkpoint that could not be copied.
    std::function<void(const std::string&)> trouble;
  };
  using Open = std::function<Result<std::unique_ptr<Mirror>>(Settings)>;

  // Gives up what is under way.
  virtual ~Mirror() = default;

  // Copies this checkpoint, which is durable and of this step. One that still waits is forgotten: a
  // newer one is here.
  virtual void offer(const std::filesystem::path& checkpoint, std::uint64_t step) = 0;

  // Waits until all that was offered is there, or has failed. False: it takes longer.
  virtual bool wait(std::chrono::nanoseconds at_most) = 0;

  // The newest one of a step beyond `after` whose every byte is right; none: there is no such.
  // Those that are not right are told in `torn`. Fails when the place cannot be read: then nothing
  // is known. `newer`: one of them is of a newer Spotter.
  virtual wire::Decoded<std::optional<Loaded>> newest(std::optional<std::uint64_t> after,
                                                      std::vector<Torn>& torn) = 0;
};

}  // namespace spotter::checkpoint
