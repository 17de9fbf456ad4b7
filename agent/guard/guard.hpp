// Watches over the checkpoint files of a trainer that knows nothing of Spotter, beside it, for as
// long as it lives: `spotter guard`, started by `spotter supervise` before the trainer and told of
// its end.
//
// stdin:  one line when the trainer has ended: `ended` (it left by itself, exit status 0 or 75) or
//         `killed` (any other end); then nothing writes any more. The end of the stream alone: the
//         supervisor is dead, and we leave at once.
// stdout: one line: `ready`, when the trainer may start; else why not.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "agent/guard/changes.hpp"
#include "agent/guard/keeper.hpp"

namespace spotter::guard {

// What the agent is told. With a path: this file is finished and durable.
struct Saying {
  std::string words;
  std::string path;
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;
};

// Has a process of the trainer ended since this was asked last, or does one just now? The kernel
// marks a process as exiting before it closes its files, so a writer's death is seen with the close
// it caused.
using SomebodyDied = std::function<bool()>;

class Guard {
 public:
  using Say = std::function<void(const Saying&)>;

  // REQUIRES: the keeper outlives this.
  Guard(Keeper& keeper, SomebodyDied somebody_died, Say say)
      : keeper_(keeper),
        changes_(keeper.place()),
        somebody_died_(std::move(somebody_died)),
        say_(std::move(say)) {}

  // From here on nothing is missed. What is not whole is moved aside first, unless a trainer runs
  // already (`again`: the guard before us died).
  Result<void> begin(bool again);

  // Takes what has happened; answers after how long to come again though nothing happens.
  std::chrono::milliseconds look();
  int descriptor() const { return changes_.descriptor(); }

  // The trainer has ended, and all its processes.
  void end(bool voluntarily);

 private:
  using Clock = std::chrono::steady_clock;
  struct Closed {
    Clock::time_point at;
    bool unsure = false;
  };

  std::vector<std::string> closed_names() const;
  void take_changes();
  void see_all(bool unsure);
  void take(const std::string& name, Closing closing);
  void say_settled(const Settled& settled);
  void complain(const std::string& words);

  Keeper& keeper_;
  Changes changes_;
  SomebodyDied somebody_died_;
  Say say_;
  std::map<std::string, Closed> closed_;  // to be taken
  std::set<std::string> touched_;         // since take() began
  std::string last_complaint_;
};

// Everything of the command: until the line on stdin.
struct Options {
  Where where;
  std::string socket;  // of the agent, for datagrams (wire/datagram.hpp)
  bool again = false;
};
int run(const Options& options);

}  // namespace spotter::guard
