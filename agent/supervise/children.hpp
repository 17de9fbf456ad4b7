// All that descends from this process, which is a sub-reaper (PR_SET_CHILD_SUBREAPER of prctl(2)):
// whoever loses its parent becomes its child, and an ended child stays in /proc until it is waited
// for. So as long as anybody is left, one of its own children is there to be found, however fast
// they fork. REQUIRES: this process has one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <set>

namespace spotter::supervise {

// A proof: nobody is left but `except` and what is below it, and all who ended were waited for.
bool nobody_descends(pid_t except = 0);

// Those that are to end, found faster than they fork.
class Children {
 public:
  // `except` and what is below it is spared.
  explicit Children(pid_t except);

  // SIGKILLs each of our own children the moment that it is found; those of one that has ended are
  // our own the next time. How many were found that were not there before.
  std::size_t kill();

 private:
  pid_t except_;
  std::uint64_t since_;      // when this process started: what is older descends from others
  std::set<pid_t> foreign_;  // older ones, which need not be looked at each time
  std::set<pid_t> found_;
  int rounds_ = 0;
};

}  // namespace spotter::supervise
