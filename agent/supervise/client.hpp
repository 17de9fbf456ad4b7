// The agent's side of supervision: reads the trainer's state, sends signals, collects its end. Only
// collect() waits, for the moment in which a supervisor, or what it kills, exits. To start one, run
// `spotter supervise --run-directory DIR --spec -` with to_json(Spec) on its stdin.
#pragma once

#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

// With none of the three nothing was started, or its end has been collected.
struct Supervised {
  bool held = false;             // a supervisor has the lock
  std::optional<Ended> ended;    // then it is over, whatever the others say
  std::optional<Record> record;  // not looked at once it has ended

  bool runs() const { return held && !ended; }  // maybe its trainer does not yet
  const Record* running() const { return runs() && record ? &*record : nullptr; }
  // The supervisor was killed. The trainer died with it, and its exit status is lost.
  bool vanished() const { return !held && record; }
};

// Fails only when a file exists and cannot be read or parsed.
Result<Supervised> look(const std::string& run_directory);

// A supervisor lives there, whatever the files say, also where they cannot be read.
bool has_supervisor(const std::string& run_directory);

// Signals the trainer's main process only: data loaders must not end before the checkpoint is
// written. A shell that neither traps nor ignores the signal passes it on to its children (see
// signal_main_process()). Delivery is asynchronous. Fails when no supervisor listens.
Result<void> send_signal(const std::string& run_directory, int signal);
Result<void> kill(const std::string& run_directory);  // SIGKILL to the whole tree

// The kind of an error: processes of the trainer before live on, since even SIGKILL does not end
// what is stuck in the kernel. Any other one says nothing of them.
inline constexpr const char* processes_left = "processes-left";

// Removes the record of Ended or Vanished, so that a next trainer can start. To be called once the
// agent has used it. SIGKILLs first what is left of a vanished trainer's session; fails with
// processes_left if that has not ended at once: call it again. Processes left by one that ended
// stay known to nobody_left().
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

// Judges what an ended trainer's exit means for the job.

struct Expectation {
  std::string run_directory;   // where `notice` is once the trainer was asked to end
  std::string result;          // absolute path that must exist; empty: none, or checked later
  bool said_finished = false;  // it sent X_SPOTTER_FINISHED=1
  std::string job{};           // whose end it must be; empty: of whichever job
  bool gang = false;           // `spotter gang` ended, with its own exit status
  bool never_asks = false;     // stop_signal: none: a notice asks nothing of it
  bool sets_up = false;        // `spotter set-up` comes before it, with its own exit status
};

struct Verdict {
  bool success = false;             // the job is done: its result exists
  bool stopped_as_asked = false;    // it ended because we or others asked; not the job's failure
  bool unfit_machine = false;       // its gang says so
  std::string stopped_by;           // by whom, other than our agent; empty: by nobody
  bool checkpoint_doubted = false;  // no attempt: the next one goes on from another checkpoint
  bool setup_failed = false;        // no attempt: the trainer was not reached
};

// An end that lies there from another job says nothing of this one, nor of its machine: that job's
// agent was killed before it had collected it. Exit status 0 is success when the declared result
// exists. When the trainer had been asked to end, status 0 may mean only that it saved and stopped,
// and the result may be an earlier epoch's: it must also have said that it is finished. Otherwise
// the next instance starts it again, and it ends at once. A result that cannot be checked counts as
// present: on success the caller checks it again (service/act/local.hpp: is_there()). Asked is also
// a trainer that somebody else stopped, such as process 1 for needrestart: stopper().
Verdict judge(const Ended& ended, const Expectation& expectation);

// Says who, other than our agent, stopped the trainer that runs or ran there last; empty: nobody.
std::string stopper(const std::string& run_directory);
// Our agent has asked the trainer to end.
bool is_noticed(const std::string& run_directory);
// Before a trainer starts: of an earlier one's end.
void forget_stops(const std::string& run_directory);

// collect(), but where the end says that the machine is unfit: that is kept until the machine is
// gone, or an agent that is started again would train on it.
Result<void> forget(const Expectation& expectation);

}  // namespace spotter::supervise
