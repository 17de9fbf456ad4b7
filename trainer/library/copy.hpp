// A copy of a training's state in memory, and a cheap check whether a part has changed.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/library/bulk.hpp"
#include "trainer/library/saver.hpp"

namespace spotter::checkpoint {

class Copy {
 public:
  // False: out of memory. Reuses the memory of earlier copies.
  bool take(std::uint64_t step, std::span<const Source> sources, const nlohmann::json& meta,
            std::optional<double> metric);
  // Allocates and touches so many bytes, so that take() runs at the speed of memory.
  bool prepare(std::uint64_t bytes);

  std::uint64_t step() const { return step_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t capacity() const { return memory_.capacity(); }
  std::span<const Part> parts() const { return parts_; }  // each aligned to kAlignment
  const nlohmann::json& meta() const { return meta_; }
  std::optional<double> metric() const { return metric_; }

  std::chrono::nanoseconds stall{};  // set by the caller of take()

 private:
  Buffer memory_;
  std::uint64_t step_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<Part> parts_;
  nlohmann::json meta_;
  std::optional<double> metric_;
};

// The sum of some of its pages. Different samples mean different bytes; equal samples do not mean
// equal bytes.
std::string sample_of(std::string_view bytes);

}  // namespace spotter::checkpoint
