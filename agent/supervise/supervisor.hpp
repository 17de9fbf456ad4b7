// The trainer's parent, as containerd's shim is a container's: the trainer goes on when the agent
// crashes, is upgraded or is killed. A file keeps how it ended until an agent collects it.
//
// In the run directory (run_directory.hpp):
//   supervisor.lock   held (open file description lock) for the supervisor's whole life
//   supervisor.json   Record: written once the trainer runs
//   companion.pid     "PID TICKS": which process the sidecar is (sidecar.hpp)
//   supervisor.sock   datagrams from the agent: `signal N`, `kill`
//   ended.json        Ended: atomic, fsynced, last; where it is there, the others say nothing of a
//                     trainer that runs
#pragma once

#include "agent/supervise/launch.hpp"

namespace spotter::supervise {

// Returned by `spotter supervise`, and by the one who starts it as a service.
int exit_status(const Error& why);
inline constexpr int processes_left_status = 4;  // those of the trainer before: nobody_left()

// Detaches a supervisor (fork, setsid, fork). Returns once the trainer's shell was executed. Fails
// with the reason why not; then no process and no supervisor.json is left. The caller should be
// small and single-threaded (`spotter supervise` is). Fails when an ended.json was not collected,
// which would be lost.
//
// The trainer has its own session and process group, Spec's user with its groups and a clean
// environment, default signals, no inherited files, stdin /dev/null, output appended to the log,
// umask 022 (of an ordinary user: that of who started it), no core files. It is SIGKILLed when the
// supervisor dies, whatever the reason. When it
// ends, all its descendants are ended (SIGTERM, 2 s, SIGKILL), however they fork; only then, when
// nothing writes any more, is its end recorded. Another user's trainer has a limit on processes.
Result<void> start(const std::string& run_directory, const Spec& spec);

// The same in a systemd service: this process becomes the supervisor. Writes what start() would
// return to the file `report`, for read_report(), then notifies systemd. Also logs to the journal
// how the trainer ended. Returns the exit status: 0 once the trainer ran.
int run_as_service(const std::string& run_directory, const Spec& spec, const std::string& report);
Result<void> read_report(const std::string& report);

}  // namespace spotter::supervise
