// A control group (cgroups(7), version 2) for the trainer, below this process's. Only root can make
// one, and not in a unit's sandbox. A process needs root's rights to leave it, and the kernel kills
// all of it at once (Linux 5.14), even if the supervisor is dead.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace spotter::supervise {

// Returns its path. Empty: none can be made here.
std::string make_control_group();

// Moves this process, and so what it will start, into the group. False: there is no such group.
bool enter_control_group(const std::string& path);

// SIGKILLs all its processes. Does nothing for an empty path.
void kill_control_group(const std::string& path);

// The same, then waits until they have ended (5 s at most) and removes the group, if it exists.
// False: some have not ended (stuck in the kernel).
bool remove_control_group(const std::string& path,
                          std::chrono::milliseconds patience = std::chrono::seconds(5));

// The kernel's counters of the memory of this process's control group.

// The number of its processes that the kernel killed when out of memory; 0 where it does not count
// (cgroup v1). https://docs.kernel.org/admin-guide/cgroup-v2.html, memory.events. `root`: the
// directory that has proc and sys.
std::uint64_t kills_for_want_of_memory(const std::string& root = "");

}  // namespace spotter::supervise
