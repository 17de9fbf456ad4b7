// torchrun, with the shell that starts it, as a child.
#pragma once

#include <sys/types.h>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"
#include "agent/gang/participant.hpp"
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

// A round that has begun, and torchrun, which asked for it. Before it gets its place the ranks of
// an earlier torchrun are ended, which takes a while; torchrun may end meanwhile. A place that it
// no longer takes stays with the participant, which then knows that the workers of that round never
// began: given to nobody it would count as a failure of the trainer.
class GangHandover {
 public:
  // `torchrun`: one of the launcher's processes; 0: it is not known which, and it may live.
  GangHandover(const GangLauncher& launcher, gang::Participant& participant, pid_t torchrun)
      : launcher_(launcher), participant_(participant), torchrun_(torchrun) {}

  // To be called at each turn: the place, once.
  std::optional<gang::Place> look();
  // A round has begun, and torchrun has ended: nobody waits for it.
  bool is_in_vain() const { return in_vain_; }

 private:
  const GangLauncher& launcher_;
  gang::Participant& participant_;
  pid_t torchrun_;
  int turns_ = 0;
  bool in_vain_ = false;
};

// Limits how long the command may go on in vain.
class GangPatience {
 public:
  explicit GangPatience(Duration most) : most_(most) {}

  // To be called now and then. True: it has been in vain for so long, without a break; then again
  // after as long.
  bool is_over(Time now, bool in_vain) {
    if (!in_vain) since_.reset();
    if (!in_vain) return false;
    if (!since_) since_ = now;
    if (now - *since_ < most_) return false;
    since_ = now;
    return true;
  }

 private:
  Duration most_;
  std::optional<Time> since_;
};

}  // namespace spotter::command
