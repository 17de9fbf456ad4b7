// When to checkpoint and when to stop. Pure: no clock, no I/O; the caller passes the time.
//
// Without a notice: periodically, or when asked. After a notice with a time to be gone by: a
// checkpoint at once, so that the present state becomes durable; then training continues until a
// last checkpoint at the last safe moment, and it leaves:
//
//   last moment = gone by - 1.5 x (stall + write) - the longest recent step - 1 s to exit
//
// of the longest recent stall and write. Once the checkpoint of the notice is saved only the steps
// since then are at stake, and 1.2 x do.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace spotter::checkpoint {

using Duration = std::chrono::nanoseconds;
using Instant = std::chrono::nanoseconds;  // CLOCK_BOOTTIME

constexpr Duration kExit = std::chrono::seconds(1);  // interpreters and GPU drivers need it

// The maximum of the last few durations.
class Longest {
 public:
  void add(Duration one) { ring_[at_++ % ring_.size()] = one; }
  Duration get() const;

 private:
  std::array<Duration, 8> ring_{};
  std::size_t at_ = 0;
};

class Pace {
 public:
  // `every`: zero for "only when asked"; counts from `now`.
  Pace(Duration every, Instant now) : every_(every), last_save_(now) {}

  // --- input ---
  void stepped(Instant now);  // the end of a step
  void every(Duration every) { every_ = every; }
  void wanted(Instant after) { wanted_ = after; }  // a checkpoint made after this time
  // Asked to stop. `gone_by`: until then the machine can be used; none: stop as soon as possible.
  void stop(Instant now, std::optional<Instant> gone_by);
  void saved(Instant begun, Duration stall);
  void covered(Instant begun);          // nothing to save: it was just saved
  void skipped() { finished_ = true; }  // no time for another one
  // One copy is durable in one place, `took` after its writing began. Places are written one after
  // the other.
  void wrote(std::size_t place, Duration took);

  // --- results ---
  bool checkpoint_due(Instant now) const;
  bool stop_due(Instant now) const;
  // May other work of this duration be done before the last save?
  bool has_time(Instant now, Duration needed) const;
  // Would a save that begins now, after `pending` others, be durable in time?
  bool can_finish(Instant now, std::size_t pending) const;
  // Is a save that begins now the last one?
  bool is_last(Instant now) const { return gone_by_ && now >= last_moment(); }
  bool stopping() const { return stopping_; }

  // From the stop to the last checkpoint, less the stalls of those in between.
  std::optional<Duration> trained_in_window() const;

 private:
  Duration writing() const;  // one copy to all places
  Duration estimate() const { return stall_.get() + writing(); }
  Instant last_moment() const;

  Duration every_;
  Instant last_save_;
  std::optional<Instant> last_step_;
  std::optional<Instant> wanted_;
  bool stopping_ = false;
  bool secured_ = false;   // saved since the stop
  bool finished_ = false;  // saved for the last time, or no time left
  std::optional<Instant> gone_by_;
  Instant stopped_at_{};
  Duration stalled_{};
  std::optional<Instant> last_begun_;
  Longest step_, stall_;
  std::vector<Longest> write_;  // of each place
};

}  // namespace spotter::checkpoint
