// Reports this machine's gang to its agent, in datagrams to $NOTIFY_SOCKET. Where there is no agent
// it does nothing.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "agent/gang/account.hpp"

namespace spotter::command {

class GangReporter {
 public:
  GangReporter();
  // To be called at each turn. `asks`: the launcher waits for a round. Sends what has changed, and
  // now and then what has not: the agent may have been started again, and its times pass.
  void report(Time now, const gang::Participant& participant, bool asks);
  // Where the ranks write down which copies of their state are in memory.
  void copies_in(std::string folder) { copies_ = std::move(folder); }
  // The last time that ranks of this machine did no step for long: who hung, and where.
  void hangs(const std::string& words) {
    hung_ = words;
    said_at_.reset();
  }

 private:
  std::string socket_, hung_, copies_;
  gang::Accountant accountant_;
  gang::Account said_;
  std::optional<Time> said_at_;
};

}  // namespace spotter::command
