// The agent's side of supervision: looks, signals, collects. Nothing here waits, except collect()
// for the few microseconds in which a supervisor exits. Start one by running
// `spotter supervise --run-directory DIR --spec -` with to_json(Spec) on its stdin.
#pragma once

#include <string>
#include <variant>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"
#include "agent/supervise/record.hpp"

namespace spotter::supervise {

struct None {};      // nothing was started, or its end has been collected
struct Starting {};  // a supervisor holds the lock, its trainer does not run yet
struct Running {
  int trainer_pid = 0;
  int supervisor_pid = 0;
  Time started;
  std::string job;
};
// The supervisor was killed: the trainer went with it, its exit status is lost.
struct Vanished {
  int trainer_pid = 0;
  std::string job;
};
using Supervised = std::variant<None, Starting, Running, Ended, Vanished>;

// Fails only when a file is there and cannot be read or understood.
Result<Supervised> look(const std::string& run_directory);

// To the trainer's main process only (data loaders must not die before the checkpoint is written).
// While that process is a shell which neither traps nor ignores the signal, its only child is
// meant. Delivery is asynchronous; fails when no supervisor listens.
Result<void> send_signal(const std::string& run_directory, int signal);
Result<void> send_signal_to_group(const std::string& run_directory, int signal);
Result<void> kill(const std::string& run_directory);  // SIGKILL to the whole tree

// The agent has taken what look() said: forgets Ended or Vanished, so that a next trainer may
// start. Of a vanished one, it SIGKILLs what is left of the trainer's session first.
Result<void> collect(const std::string& run_directory);

// Of a supervisor that was killed: SIGKILLs what is left of its trainer's control group, where it
// had one, and of its session (at most 5 s each), removes supervisor.json. collect() and a new
// supervisor call it. REQUIRES: the lock is free, or ours.
Result<void> end_vanished(const std::string& run_directory);

// A close-on-exec pidfd, readable when the process has ended. The caller closes it.
Result<int> open_pidfd(int pid);

}  // namespace spotter::supervise
