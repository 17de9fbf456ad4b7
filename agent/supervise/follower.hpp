// The program that reads the trainer's own log of metrics (`spotter follow-log`), with no more
// rights than the trainer. Nothing depends on it: where it fails, the trainer trains without.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/supervise/launch.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

class Follower {
 public:
  // No arguments: there is none, and no function does anything.
  explicit Follower(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

  // Returns once it is ready, or after a moment without that. Its failure goes to the log.
  void start(const Launch& trainer, const Descriptor& log, const std::string& control_group);
  bool is(pid_t pid) const { return pid_ != 0 && pid == pid_; }
  // After its end by itself: starts it as `... --again`, a few times at most.
  void restart();
  // It is not started again: the trainer is killed, and so is it.
  void give_up() { restarts_left_ = 0; }
  // The trainer has ended: lets it read the last rows, for a second at most. Then it may be killed
  // as any process of the trainer.
  void end();

 private:
  bool spawn(const std::vector<std::string>& arguments);

  std::vector<std::string> arguments_;
  Launch launch_;
  int log_ = -1;
  std::string control_group_;
  pid_t pid_ = 0;
  Descriptor stdin_, stdout_;
  int restarts_left_ = 5;  // one that fails each time is of no use
};

}  // namespace spotter::supervise
