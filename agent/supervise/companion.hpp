// A program that lives beside the trainer: it is ready before the trainer starts, is told when the
// trainer has ended, and is waited for. It dies with the supervisor. What it does is not our
// business (it is `spotter guard`).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

class Companion {
 public:
  // Empty: there is none, and nothing below does anything.
  explicit Companion(std::vector<std::string> arguments = {}) : arguments_(std::move(arguments)) {}

  // Returns once it has said `ready` on its stdout; fails with what else it said.
  Result<void> start();
  // It has ended though nobody told it to: it is started again, as `... --again`, a few times at
  // most.
  void restart();

  bool is(pid_t pid) const { return pid_ != 0 && pid == pid_; }
  bool runs() const { return pid_ != 0; }
  pid_t pid() const { return pid_; }
  void forget() { pid_ = 0; }  // it was waited for
  void tell(const std::string& word) const;
  void kill() const;

 private:
  Result<void> spawn(const std::vector<std::string>& arguments);

  std::vector<std::string> arguments_;
  pid_t pid_ = 0;
  Descriptor stdin_;
  int restarts_ = 0;
};

}  // namespace spotter::supervise
