#include "agent/aws/s3/window.hpp"

#include <algorithm>

namespace spotter::s3 {

void Window::moved(std::uint64_t bytes, std::size_t busy, bool more, Instant now) {
  if (begin_ == Instant{} || busy < width_ || !more) {
    begin_ = now;
    bytes_ = 0;
    return;
  }
  bytes_ += bytes;
  const Duration passed = now - begin_;
  if (passed < limits_.period) return;
  const double rate = static_cast<double>(bytes_) / std::chrono::duration<double>(passed).count();
  begin_ = now;
  bytes_ = 0;
  if (rate > 0) close_period(rate, now);
}

void Window::close_period(double rate, Instant now) {
  if (!trying_) {
    if (now - settled_ < limits_.content || width_ >= limits_.most) return;
    trying_ = true;
    width_before_ = 0;  // what was true then need not be true now
  }
  if (width_before_ != 0 && rate < rate_before_ * limits_.worth) {
    if (++doubts_ < limits_.patience) return;
    width_ = width_before_;
    trying_ = false;
    doubts_ = 0;
    settled_ = now;
    return;
  }
  doubts_ = 0;
  width_before_ = width_;
  rate_before_ = rate;
  width_ = std::min(limits_.most, 2 * width_);
}

void Window::throttled(Instant now) {
  if (throttled_ != Instant{} && now - throttled_ < std::chrono::seconds(1)) return;
  throttled_ = now;
  width_ = std::max<std::size_t>(1, width_ / 2);
  trying_ = false;
  doubts_ = 0;
  settled_ = now;
  begin_ = now;
  bytes_ = 0;
}

namespace {

constexpr std::size_t telling = 256U << 10;
constexpr double worth = 8;                // waiting is this part of a request, at most
constexpr Piece::Duration at_once{0.005};  // less is not the way's, but the processors'
constexpr double older = 1.02;             // a least wait is forgotten over some hundred answers
constexpr double smooth = 0.25;            // the newest rate's weight

}  // namespace

void Piece::measured(std::size_t bytes, Duration waited, Duration lasted) {
  if (bytes < telling || waited.count() <= 0 || lasted.count() <= 0) return;
  const double rate = static_cast<double>(bytes) / lasted.count();
  const bool first = rate_ == 0;
  waited_ = first ? waited : std::min(waited, waited_ * older);
  rate_ = first ? rate : rate_ + (rate - rate_) * smooth;
  const double way = std::max(0.0, (waited_ - at_once).count());
  const double wanted = std::min(worth * way * rate_, double{piece_bytes});
  // In whole MiB, so that memory is given back in the sizes in which it is taken.
  bytes_ = std::max(least_piece, static_cast<std::size_t>(wanted) / least_piece * least_piece);
}

}  // namespace spotter::s3
