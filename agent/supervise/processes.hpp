// Process trees by /proc, and signals to the right process of one.
#pragma once

#include <sys/stat.h>
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
  std::uint64_t used_ticks = 0;   // of processors, with those of children that it has waited for
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

// Some of them have the file open for writing, and each descriptor of those can only add to it
// (O_APPEND). False also where that cannot be known.
bool only_append(const std::vector<Process>& processes, const struct stat& file);

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

// A control group (cgroups(7), version 2) for the trainer, below this process's. Only root can make
// one, and not in a unit's sandbox. A process needs root's rights to leave it, and the kernel kills
// all of it at once (Linux 5.14), even if the supervisor is dead.

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
