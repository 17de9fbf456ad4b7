// Slows answers down, where a fault says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "tests/world/s3/faults.hpp"

namespace spotter::emulator::s3 {

// The line that all answers share. Thread-safe.
class Line {
 public:
  // When these bytes have gone through, if they follow all that was asked for before.
  std::chrono::steady_clock::time_point reserve(std::uint64_t bytes, std::uint64_t rate);

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::time_point free_{};
};

class Traffic {
 public:
  // The function for FileBody::pace; empty where nothing slows the answer down.
  std::function<std::chrono::nanoseconds(std::uint64_t bytes)> pace(
      const world::s3::Treatment& treatment) const;
  // So many bytes go out at once: about ten milliseconds' worth.
  static std::uint64_t piece(const world::s3::Treatment& treatment);

 private:
  std::shared_ptr<Line> line_ = std::make_shared<Line>();
};

}  // namespace spotter::emulator::s3
