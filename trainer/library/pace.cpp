#include "trainer/library/pace.hpp"

#include <algorithm>

namespace spotter::checkpoint {

Duration Longest::get() const { return *std::max_element(ring_.begin(), ring_.end()); }

void Pace::stepped(Instant now) {
  if (last_step_) step_.add(now - *last_step_);
  last_step_ = now;
}

void Pace::stop(Instant now, std::optional<Instant> gone_by) {
  if (!stopping_) stopped_at_ = now;
  stopping_ = true;
  gone_by_ = gone_by;
}

void Pace::covered(Instant begun) {
  if (stopping_) {
    finished_ = finished_ || !gone_by_ || is_last(begun);
    secured_ = true;
    last_begun_ = begun;
  }
  last_save_ = begun;
}

void Pace::saved(Instant begun, Duration stall) {
  covered(begun);
  if (stopping_ && !finished_) stalled_ += stall;
  stall_.add(stall);
  last_step_.reset();  // the next step's duration must not include the stall
}

void Pace::wrote(std::size_t place, Duration took) {
  if (write_.size() <= place) write_.resize(place + 1);
  write_[place].add(took);
}

Duration Pace::writing() const {
  Duration all{};
  for (const auto& place : write_) all += place.get();
  return all;
}

Instant Pace::last_moment() const {
  const Duration saving = secured_ ? estimate() * 6 / 5 : estimate() * 3 / 2;
  return *gone_by_ - saving - step_.get() - kExit;
}

bool Pace::checkpoint_due(Instant now) const {
  if (finished_) return false;
  if (stopping_) {
    if (!gone_by_ || is_last(now)) return true;
    // Only if it does not delay the last one.
    return !secured_ && (write_.empty() || now + estimate() * 2 < last_moment());
  }
  return (wanted_ && *wanted_ > last_save_) ||
         (every_ > Duration::zero() && now - last_save_ >= every_);
}

bool Pace::stop_due(Instant now) const {
  return stopping_ && (finished_ || (gone_by_ && now >= *gone_by_ - kExit));
}

bool Pace::has_time(Instant now, Duration needed) const {
  if (!stopping_) return true;
  return gone_by_ && !finished_ && now + needed < last_moment();
}

bool Pace::can_finish(Instant now, std::size_t pending) const {
  const auto needed = stall_.get() + writing() * static_cast<Duration::rep>(pending + 1);
  return !gone_by_ || now + needed < *gone_by_;
}

std::optional<Duration> Pace::trained_in_window() const {
  if (!stopping_ || !gone_by_ || !last_begun_) return std::nullopt;
  return std::max(Duration::zero(), *last_begun_ - stopped_at_ - stalled_);
}

}  // namespace spotter::checkpoint
