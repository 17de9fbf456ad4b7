// A control group (cgroups(7), version 2) of the trainer's own below this process's: where root may
// make one, which the sandbox of a unit forbids. Who is in it leaves it with root's rights only,
// and the kernel kills all of it at once, also when the supervisor is dead (Linux 5.14).
#pragma once

#include <string>

namespace spotter::supervise {

// Its path. Empty: none can be made here.
std::string make_control_group();

// Moves this process there, and so what it will start. False: it is not there.
bool enter_control_group(const std::string& path);

// SIGKILLs all who are in it. Nothing happens for an empty path.
void kill_control_group(const std::string& path);

// The same, waits until they have ended (5 s at most), and removes it. It may be gone already.
void remove_control_group(const std::string& path);

}  // namespace spotter::supervise
