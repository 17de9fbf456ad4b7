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
    try_again();
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

// The server that asked for less means all threads.
void Window::retry(Instant now) {
  if (throttled_ == Instant{} || now - throttled_ >= limits_.content) try_again();
}

void Window::try_again() {
  trying_ = true;
  doubts_ = 0;
  width_before_ = 0;  // what was true then need not be true now
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

}  // namespace spotter::s3
