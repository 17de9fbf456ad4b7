// The trainer's parent, as containerd's shim is a container's: the agent may crash, be upgraded or
// be killed, and the trainer goes on; how it ended waits in a file until an agent has taken it.
//
// In the run directory:
//   supervisor.lock   held (open file description lock) for the supervisor's whole life
//   supervisor.json   {"pid", "trainer_pid", "started_boottime_ms", "control_group", "job"}
//   companion.pid     "PID TICKS": which process the sidecar is (sidecar.hpp)
//   supervisor.sock   datagrams from the agent: `signal N`, `signal-group N`, `kill`
//   ended.json        {"exit_code" | "signal", "core_dumped", "out_of_memory", "last_words",
//                      "ended_boottime_ms", "ran_ms", "trainer_pid", "job", "left_over": [pid]}:
//                      atomic, fsynced, last
#pragma once

#include <string>

#include "agent/base/result.hpp"
#include "agent/supervise/spec.hpp"

namespace spotter::supervise {

struct StartFailure {
  enum class Kind { Failed, AlreadyRunning };
  Kind kind = Kind::Failed;
  std::string message;
};

struct Started {
  int supervisor_pid = 0;
  int trainer_pid = 0;
};

// Detaches a supervisor (fork, setsid, fork) and returns once the trainer's shell was exec'ed, or
// with what prevented that; then no process and no supervisor.json stays behind. The caller should
// be small and single-threaded (`spotter supervise` is). An ended.json that nobody collected is a
// failure: it would be lost.
//
// The trainer: own session and process group, Spec's user with that user's groups and clean
// environment, default signals, no inherited files, stdin /dev/null, output appended to the log,
// umask 022, no core files; SIGKILLed when the supervisor dies, however that dies. When the trainer
// ends, all its descendants are ended, too (SIGTERM, 2 s, SIGKILL), however they fork, and only
// then is its end recorded: nothing writes any more. Another user's trainer has a bound of
// processes.
tl::expected<Started, StartFailure> start(const std::string& run_directory, const Spec& spec);

// The same as a service of systemd's: this process becomes the supervisor. What start() would give
// back is written to the file `report` first, for understand(); systemd is told that it runs. How
// the trainer ended stands in the journal, too. The exit status: 0, once it ran.
int stay(const std::string& run_directory, const Spec& spec, const std::string& report);
tl::expected<Started, StartFailure> understand(const std::string& report);

}  // namespace spotter::supervise
