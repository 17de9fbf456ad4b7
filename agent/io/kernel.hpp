// Calls to the kernel: the time, what nobody can guess, the process's memory.
#pragma once

#include <time.h>

#include <cstddef>

#include "agent/base/names.hpp"

namespace spotter::io {

#ifndef SPOTTER_CLIENT
inline constexpr clockid_t boot_clock = CLOCK_BOOTTIME;
#else
inline constexpr clockid_t boot_clock = CLOCK_MONOTONIC;  // macOS's counts while it sleeps
#endif

// Monotonic, and counts while the machine is suspended.
inline std::chrono::milliseconds boot_time() {
  timespec now{};
  clock_gettime(boot_clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::duration_cast<std::chrono::milliseconds>(
                                                std::chrono::nanoseconds(now.tv_nsec));
}

inline Time now() { return Time(boot_time()); }

// Seconds since 1970, as this machine's clock has it.
inline double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Random text that nobody can guess.

// So many hexadecimal digits (an even number, 512 at most) of the kernel's random bytes:
// getentropy(3). Empty: it gives none.
std::string random_hex(std::size_t digits);

// The memory of a process that stays for days, after a busy start.

// Gives back what is free of the heap, and unmaps the pages of programs and libraries, which are
// the kernel's anyway: those that are run from now on come back one by one, without I/O as a rule.
void return_free_memory();

}  // namespace spotter::io
