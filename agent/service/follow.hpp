// Prints a growing file: the trainer's log, while `spotter run` is in the foreground.
#pragma once

#include <string>

namespace spotter::command {

// A child process that prints the content of `path` and what is appended, until it is asked to end;
// then the rest. Reads a truncated file from its beginning. Dies with this process.
class Follower {
 public:
  explicit Follower(const std::string& path);
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower();  // waits until it has printed the rest, two seconds at most

 private:
  int process_ = -1;
};

}  // namespace spotter::command
