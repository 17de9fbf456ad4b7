// How long a trainer may run, where several machines could run it: the holder of the experiment
// writes the time into a file, and again with each renewal. The clock also counts while the machine
// sleeps, so a machine that was paused for too long ends its trainer when it wakes.
#pragma once

#include <cstdint>
#include <string>

#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

// Replaces the file at `path`, which is absolute: milliseconds of CLOCK_BOOTTIME.
Result<void> write_lease(const std::string& path, std::int64_t until_boottime_ms);

class Lease {
 public:
  // An empty path: it never ends. A missing or unreadable file: it has ended.
  explicit Lease(std::string path);

  bool is_over() const;
  // Becomes readable when it is time to call renew().
  int descriptor() const { return timer_.get(); }
  // Reads the file, and sets the timer to the end of the lease, or to one second where it is over.
  void renew();

 private:
  std::int64_t until() const;

  std::string path_;
  Descriptor timer_;
};

}  // namespace spotter::supervise
