// The kernel's counters of the memory of this process's control group.
#pragma once

#include <cstdint>
#include <string>

namespace spotter::supervise {

// How many of its processes the kernel killed when out of memory; 0 where it does not count (cgroup
// v1). https://docs.kernel.org/admin-guide/cgroup-v2.html, memory.events. `root`: the directory
// that has proc and sys.
std::uint64_t kills_for_want_of_memory(const std::string& root = "");

}  // namespace spotter::supervise
