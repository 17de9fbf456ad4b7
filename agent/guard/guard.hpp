// Watches over the checkpoint files of a trainer that knows nothing of Spotter, beside it, from
// its start to its end: `spotter guard`, started by `spotter supervise` before the trainer, which
// also reports that end to it.
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
#include <vector>

#include "agent/guard/best.hpp"
#include "agent/guard/changes.hpp"
#include "agent/guard/keeper.hpp"

namespace spotter::guard {

// What the agent is sent. With a path: this file is finished and durable.
struct Saying {
  std::string words;
  bool wrong = true;  // else a person need not act on the words
  std::string path;
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;
  std::string name;                                // of the checkpoint, as the record has it
  std::chrono::system_clock::time_point closed{};  // when something happened to it last
};

// Has a process of the trainer ended since this was asked last, or does one just now? The kernel
// marks a process as exiting before it closes its files, so a writer's death is seen with the close
// it caused.
using ProcessDied = std::function<bool()>;

class Guard {
 public:
  using Say = std::function<void(const Saying&)>;

  // REQUIRES: the keeper outlives this.
  Guard(Keeper& keeper, ProcessDied process_died, Say say)
      : keeper_(keeper),
        changes_(keeper.place()),
        process_died_(std::move(process_died)),
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
    Clock::time_point at;  // of a folder: when something happened in it last
    bool unsure = false;
    std::size_t asked = 0;  // of a folder: how often, since then
    bool shrank = false;    // of a folder: what happened last is that a file was removed
  };
  using Examine = std::function<Result<Candidate, Refusal>()>;

  std::vector<std::string> closed_names() const;
  void take_changes();
  void look_at_all(bool unsure);
  bool keeps_folders() const { return !keeper_.place().where().folders.empty(); }
  void take_change(const Change& change, bool died);
  std::chrono::milliseconds look_at_file(const std::string& name, Clock::time_point now);
  std::chrono::milliseconds look_at_folder(const std::string& name, Clock::time_point now);
  void take(const std::string& name, const Examine& examine);
  void take(const std::string& name, Closing closing);
  void take_folder(const std::string& name, Asked asked);
  void say_settled(const Settled& settled);
  void complain(const std::string& words);

  Keeper& keeper_;
  Changes changes_;
  ProcessDied process_died_;
  Say say_;
  std::map<std::string, Closed> closed_;  // to be taken: files that were closed, or folders
  std::set<std::string> touched_;         // since take() began
  std::string last_complaint_;
};

// Everything of the command: until the line on stdin.
struct Options {
  Where where;
  std::string socket;  // of the agent, for datagrams (wire/datagram.hpp)
  bool again = false;
  std::vector<std::string> copying;  // what copies folders to S3 (copier.hpp); empty: nothing
  std::optional<BestRule> best;      // keeps the best checkpoint, too
};
int run(const Options& options);

}  // namespace spotter::guard
