// Who descends from whom, by /proc; and signals to the right one of them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spotter::supervise {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';               // Z: ended, not yet waited for
  bool exiting = false;           // it has begun to end; its files are closed after this is set
  std::uint64_t start_ticks = 0;  // since boot; with the pid, an identity that is never reused
  std::string name;
};

// Ended ones (state Z) are left out. None: no such process.
std::optional<Process> find_process(pid_t pid);
std::vector<Process> all_processes();
// `except`: neither that process nor its descendants.
std::vector<Process> descendants_of(pid_t ancestor, pid_t except = 0);

void signal_descendants(pid_t ancestor, int signal, pid_t except = 0);

// A shell that runs the trainer as its child would die of a stop signal and leave the trainer
// without a parent. So where a shell neither traps nor ignores it, its children get it instead
// (`tee` excepted: it ends with its input), and so on down. SIGINT goes to shell and children, as
// from a terminal: that is what shells are made for.
void signal_main_process(pid_t trainer, int signal);

// SIGKILLs all of a session whose leader was that process, however often they fork; at most 5 s.
void kill_session(pid_t leader, std::uint64_t leader_start_ticks);

}  // namespace spotter::supervise
