// A program that lives beside the trainer: it is ready before the trainer starts, is told when the
// trainer has ended, and is waited for. It dies with the supervisor. What it does is not our
// business (it is `spotter guard`).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

// Is that process the sidecar that was started last? Its number, given away again, is not.
bool is_sidecar(const std::string& run_directory, pid_t pid);

class Sidecar {
 public:
  // No arguments: there is none, and nothing below does anything. Before the program begins, its
  // process is named in the run directory, for is_sidecar(); an empty one: nowhere.
  explicit Sidecar(std::vector<std::string> arguments = {}, std::string run_directory = {})
      : arguments_(std::move(arguments)), run_directory_(std::move(run_directory)) {}

  // Returns once it has said `ready` on its stdout; fails with what else it said, or when it says
  // nothing for `limit`.
  Result<void> start(std::chrono::milliseconds limit);
  // It has ended though nobody told it to: it is started again, as `... --again`, a few times at
  // most, and not waited for. Fails with what it said, or could not be done: call it again while
  // wanted(), after a pause.
  Result<void> restart();
  // It does not run, and should.
  bool wanted() const { return !arguments_.empty() && pid_ == 0 && restarts_ <= restarts_limit; }

  bool is(pid_t pid) const { return pid_ != 0 && pid == pid_; }
  bool runs() const { return pid_ != 0; }
  pid_t pid() const { return pid_; }
  void forget() {  // it was waited for, and is not wanted any more
    pid_ = 0;
    restarts_ = restarts_limit + 1;
  }
  void tell(const std::string& word) const;
  void kill() const;

 private:
  static constexpr int restarts_limit = 5;  // one that always dies does no good

  Result<void> spawn(const std::vector<std::string>& arguments);
  std::string read_word(std::chrono::milliseconds limit) const;

  std::vector<std::string> arguments_;
  std::string run_directory_;
  pid_t pid_ = 0;
  Descriptor stdin_;
  Descriptor words_;
  int restarts_ = 0;
};

}  // namespace spotter::supervise
