// The one place where the machine's clock is read.
#pragma once

#include <time.h>

#include <chrono>

namespace spotter::io {

// CLOCK_BOOTTIME: monotonic, and counts while the machine is suspended.
inline std::chrono::milliseconds boot_time() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::duration_cast<std::chrono::milliseconds>(
                                                std::chrono::nanoseconds(now.tv_nsec));
}

// Seconds since 1970, as this machine's clock has it.
inline double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace spotter::io
