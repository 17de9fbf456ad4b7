// Shows a growing file: the trainer's log, for who runs `spotter run` in the foreground.
#pragma once

#include <string>

namespace spotter::command {

// A child process that prints what is in `path` and what is appended to it, until it is told to
// end; then what is left. Emptied files are read from their beginning. Dies with us.
class Follower {
 public:
  explicit Follower(const std::string& path);
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower();  // lets it print the rest, for two seconds at most

 private:
  int process_ = -1;
};

}  // namespace spotter::command
