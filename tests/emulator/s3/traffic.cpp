#include "tests/emulator/s3/traffic.hpp"

#include <algorithm>

namespace spotter::emulator::s3 {
namespace {

using Clock = std::chrono::steady_clock;

Clock::duration time_of(std::uint64_t bytes, std::uint64_t rate) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(rate)));
}

}  // namespace

Clock::time_point Line::reserve(std::uint64_t bytes, std::uint64_t rate) {
  // A sender that woke up late may catch up with so much.
  constexpr std::chrono::milliseconds slack{50};
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  free_ = free_ == Clock::time_point{} ? now : std::max(free_, now - slack);
  return free_ += time_of(bytes, rate);
}

std::function<std::chrono::nanoseconds(std::uint64_t bytes)> Traffic::pace(
    const world::s3::Treatment& treatment) const {
  const std::uint64_t rate = treatment.rate, total = treatment.total_rate;
  if (rate == 0 && total == 0) return {};
  const auto own = std::make_shared<Line>();
  return [rate, total, own, all = line_](std::uint64_t bytes) -> std::chrono::nanoseconds {
    Clock::time_point due{};
    if (rate > 0) due = own->reserve(bytes, rate);
    if (total > 0) due = std::max(due, all->reserve(bytes, total));
    return due - Clock::now();
  };
}

std::uint64_t Traffic::piece(const world::s3::Treatment& treatment) {
  constexpr std::uint64_t least = 1024, most = 256 * 1024;
  std::uint64_t rate = std::max(treatment.rate, treatment.total_rate);
  if (treatment.rate > 0 && treatment.total_rate > 0)
    rate = std::min(treatment.rate, treatment.total_rate);
  return std::clamp(rate / 100, least, most);
}

}  // namespace spotter::emulator::s3
