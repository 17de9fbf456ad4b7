// Process trees by /proc, and signals to the right process of one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace spotter::supervise {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';               // Z: ended, not yet waited for
  bool exiting = false;           // it is exiting; its files are closed after this is set
  std::uint64_t start_ticks = 0;  // since boot; with the pid, an identity that is never reused
  std::string name;
};

// Ended processes (state Z) are left out. None: no such process.
std::optional<Process> find_process(pid_t pid);
std::vector<Process> all_processes();
// Names a signal's sender, for a person.
std::string shown_sender(pid_t pid, uid_t user);
// Without `except` and its descendants.
std::vector<Process> descendants_of(pid_t ancestor, pid_t except = 0);

void signal_descendants(pid_t ancestor, int signal, pid_t except = 0);

// A shell that runs the trainer as its child would be ended by a stop signal and leave the trainer
// without a parent. So where a shell neither traps nor ignores the signal, its children get it
// instead (except `tee`, which ends with its input), and so on down. SIGINT goes to shell and
// children, as from a terminal, which shells expect.
void signal_main_process(pid_t trainer, int signal);

// SIGKILLs all processes of the session of `leader`, however often they fork; takes `patience`.
// False: some have not ended (stuck in the kernel).
bool kill_session(pid_t leader, std::uint64_t leader_start_ticks,
                  std::chrono::milliseconds patience = std::chrono::seconds(5));

// Finds and ends all descendants of this process, which is a subreaper (PR_SET_CHILD_SUBREAPER of
// prctl(2)): a process that loses its parent becomes its child, and an ended child stays in /proc
// until it is waited for. So while any descendant is left, one of this process's own children can
// be found, however fast they fork. REQUIRES: this process has one thread.

// True: only `except` and its descendants are left, and all that ended were waited for.
bool has_no_descendants(pid_t except = 0);

// The descendants that are to end.
class Children {
 public:
  // Spares `except` and its descendants.
  explicit Children(pid_t except);

  // SIGKILLs each child of this process as soon as it is found; when one has ended, its children
  // are this process's at the next call. Returns how many no earlier call had found.
  std::size_t kill();

 private:
  pid_t except_;
  std::uint64_t since_;      // when this process started; older ones are no descendants
  std::set<pid_t> foreign_;  // older ones, which are not read again each time
  std::set<pid_t> found_;
  int rounds_ = 0;
};

}  // namespace spotter::supervise
