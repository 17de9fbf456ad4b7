// A round that has begun, and torchrun, which asked for it. Before it gets its place the ranks of
// an earlier torchrun are ended, which takes a while; torchrun may end meanwhile. A place that it
// no longer takes stays with the participant, which then knows that the workers of that round never
// began: given to nobody it would count as a failure of the trainer.
#pragma once

#include <sys/types.h>

#include <optional>

#include "agent/gang/participant.hpp"
#include "agent/tools/gang/gang_launcher.hpp"

namespace spotter::command {

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

}  // namespace spotter::command
