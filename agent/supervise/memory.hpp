// What the kernel says of the memory of the control group that we are in.
#pragma once

#include <cstdint>
#include <string>

namespace spotter::supervise {

// How many processes of it were killed for want of memory; 0 where the kernel does not count
// (cgroup v1). https://docs.kernel.org/admin-guide/cgroup-v2.html, memory.events
// `root`: where proc and sys are.
std::uint64_t kills_for_want_of_memory(const std::string& root = "");

}  // namespace spotter::supervise
