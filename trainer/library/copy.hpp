// A copy of a training's state in memory, and what tells cheaply that a part of it has changed.
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
  // False: there is not so much memory. Reuses the memory of earlier copies.
  bool take(std::uint64_t step, std::span<const Source> sources, const nlohmann::json& meta,
            std::optional<double> metric);
  // Memory for so many bytes, touched, so that take() runs at the speed of memory.
  bool prepare(std::uint64_t bytes);

  std::uint64_t step() const { return step_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t capacity() const { return memory_.capacity(); }
  std::span<const Part> parts() const { return parts_; }  // each begins at a multiple of kAlignment
  const nlohmann::json& meta() const { return meta_; }
  std::optional<double> metric() const { return metric_; }

  std::chrono::nanoseconds stall{};  // set by whoever took it

 private:
  Buffer memory_;
  std::uint64_t step_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<Part> parts_;
  nlohmann::json meta_;
  std::optional<double> metric_;
};

// The sum of some pages of it. Two that differ are of different bytes; two that are the same may
// be, too.
std::string sample_of(std::string_view bytes);

}  // namespace spotter::checkpoint
