// Finds and ends all descendants of this process, which is a subreaper (PR_SET_CHILD_SUBREAPER of
// prctl(2)): a process that loses its parent becomes its child, and an ended child stays in /proc
// until it is waited for. So while any descendant is left, one of this process's own children can
// be found, however fast they fork. REQUIRES: this process has one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <set>

namespace spotter::supervise {

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
