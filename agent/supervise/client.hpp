// The agent's side of supervision: reads the trainer's state, sends signals, collects its end. Only
// collect() waits, for the moment in which a supervisor, or what it kills, exits. To start one, run
// `spotter supervise --run-directory DIR --spec -` with to_json(Spec) on its stdin.
#pragma once

#include <chrono>
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
// The supervisor was killed. The trainer died with it, and its exit status is lost.
struct Vanished {
  int trainer_pid = 0;
  std::string job;
};
using Supervised = std::variant<None, Starting, Running, Ended, Vanished>;

// Fails only when a file exists and cannot be read or parsed.
Result<Supervised> look(const std::string& run_directory);

// A supervisor lives there, whatever the files say, also where they cannot be read.
bool has_supervisor(const std::string& run_directory);

// Is it the supervisor that runs there, or its sidecar? Their messages are not the trainer's.
bool is_ours(const std::string& run_directory, int pid);

// Signals the trainer's main process only: data loaders must not end before the checkpoint is
// written. A shell that neither traps nor ignores the signal passes it on to its children (see
// signal_main_process()). Delivery is asynchronous. Fails when no supervisor listens.
Result<void> send_signal(const std::string& run_directory, int signal);
Result<void> kill(const std::string& run_directory);  // SIGKILL to the whole tree

// The kind of an error: processes of the trainer before live on, since even SIGKILL does not end
// what is stuck in the kernel. Any other one says nothing of them.
inline constexpr const char* processes_left = "processes-left";

// Removes the record of Ended or Vanished, so that a next trainer can start. To be called once the
// agent has used it. Of a vanished trainer's session, SIGKILLs what is left first; fails with
// processes_left if that has not ended at once: call it again. What is left of one that ended stays
// known to nobody_left().
Result<void> collect(const std::string& run_directory);

// Fails with processes_left, and names them, as long as processes of a trainer that ended live on:
// they may write where the next one would. Until then a supervisor starts no trainer.
Result<void> nobody_left(const std::string& run_directory);

// After a supervisor was killed: SIGKILLs what is left of its trainer's control group, if it had
// one, and of its session (`patience` for each), removes supervisor.json; fails with processes_left
// if some live on. collect() and a new supervisor call it. REQUIRES: the lock is free, or the
// caller's.
Result<void> end_vanished(const std::string& run_directory,
                          std::chrono::milliseconds patience = std::chrono::seconds(5));

// A close-on-exec pidfd, readable when the process has ended. The caller closes it.
Result<int> open_pidfd(int pid);

}  // namespace spotter::supervise
