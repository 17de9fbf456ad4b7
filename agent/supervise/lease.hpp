// How long a trainer may go on, where several machines could run it: whoever holds the experiment
// writes that into a file, and writes it anew with each renewal. On the clock that also counts
// while the machine sleeps: one that was paused for too long wakes up to end its trainer.
#pragma once

#include <cstdint>
#include <string>

#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

// Replaces the file at `path`, which is absolute: milliseconds of CLOCK_BOOTTIME.
Result<void> write_lease(const std::string& path, std::int64_t until_boottime_ms);

class Lease {
 public:
  // Empty path: it never ends. A file that is missing or unreadable is one that has ended.
  explicit Lease(std::string path);

  bool is_over() const;
  // Readable when it is time to look again, with renew().
  int descriptor() const { return timer_.get(); }
  // Reads the file, and waits for what it says, or, where that is over, for a second.
  void renew();

 private:
  std::int64_t until() const;

  std::string path_;
  Descriptor timer_;
};

}  // namespace spotter::supervise
