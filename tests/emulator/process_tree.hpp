// A process and everything that descends from it, found through /proc. It is complete only where
// the root is a child subreaper (or the init of a pid namespace): a daemon's double fork then stays
// below it.
#pragma once

#include <sys/types.h>

#include <vector>

namespace spotter::emulator {

// Every descendant of `root`, without `root`, zombies included.
std::vector<pid_t> descendants(pid_t root);

pid_t parent_of(pid_t pid);  // 0 when there is no such process
bool is_alive(pid_t pid);    // a zombie is not

// Stops all descendants of `root` and returns them: none can fork, and so none can be missed by the
// kill that follows. Stopping takes effect a moment after the signal, so it looks until nothing new
// appears and all have stopped; at most a second.
std::vector<pid_t> freeze(pid_t root);
void thaw(const std::vector<pid_t>& processes);

// SIGKILLs all descendants of `root`, and `root` itself unless it is the caller. The caller reaps
// what becomes its own child.
void kill_tree(pid_t root);

void signal_tree(pid_t root, int signal);  // descendants only

}  // namespace spotter::emulator
