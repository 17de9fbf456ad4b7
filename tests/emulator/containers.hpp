// In an instance's init: what ECS's agent does there. Each job's command runs below a process of
// its own, so that nothing of it is left when the command has ended, as of a container.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "tests/emulator/frames.hpp"

namespace spotter::emulator {

// From the emulator:  run TASK FOLDER LOG COUNT ARGUMENT... NAME=VALUE...
//                     stop TASK (SIGTERM to the command)    kill TASK (SIGKILL to all of it)
// To the emulator:    ended TASK STATUS (128 + the signal, as Docker tells)
//                     refused TASK REASON (it could not be started)
class Containers {
 public:
  explicit Containers(int socket) : socket_(socket) {}

  // Reads what has come on the socket; false: the emulator is gone.
  bool hear();
  // A child that was reaped; false: no container's.
  bool ended(pid_t pid, int status);

 private:
  void obey(const Words& words);
  void run(const Words& words);
  void tell(const Words& words) const;
  pid_t find(const std::string& task) const;

  int socket_;
  Frames frames_;
  std::map<pid_t, std::string> tasks_;
};

}  // namespace spotter::emulator
