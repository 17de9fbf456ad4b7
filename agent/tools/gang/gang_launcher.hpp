// torchrun, with the shell that starts it, as a child.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/io/asio.hpp"

namespace spotter::command {

class GangLauncher {
 public:
  // `ended`: the exit status, 128 + the signal; all that it had started was killed before, also
  // what lost its parent when torchrun was killed: this process becomes a subreaper.
  GangLauncher(asio::io_context& context, std::vector<std::string> command,
               std::function<void(int status)> ended);

  // With these variables beside those of this process.
  Result<void> start(const std::map<std::string, std::string>& variables);
  bool runs() const { return pid_ != 0; }
  // Is it this child or one of its descendants?
  bool has(pid_t process) const;
  void kill();  // with all that it has started
  // To be called now and then: a process that has lost its parent is this one's child.
  void reap() const;
  // SIGKILL to the ranks that have lost their torchrun, or the process of torchrun's that started
  // them: beside those of the next round they would keep the GPUs, and write. False: there is none.
  bool end_orphans() const;
  // SIGKILL to all that `torchrun` has started.
  static void end_workers(pid_t torchrun);

 private:
  std::vector<std::string> command_;
  std::function<void(int)> ended_;
  asio::posix::stream_descriptor process_;
  pid_t pid_ = 0;
};

}  // namespace spotter::command
