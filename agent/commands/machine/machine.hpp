// Commands that only a machine runs: its units, its agent, its supervisor and the trainer's shell.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace spotter::command {

// The status to end with where that is all: the arguments are wrong, or only ask for help.
std::optional<int> parsed(CLI::App& app, int argc, char** argv);

// agent/guard/guard.hpp.
int guard(int argc, char** argv);

// Mounts the trainer's views of data, or detaches them. Process 1 runs it with all of root's rights
// before the trainer starts and after it has ended; the descriptors go to the store of the
// trainer's unit (FileDescriptorStoreMax=).
int views(int argc, char** argv);

// `spotter pipe`: feeds the job's channels.
void add_pipe(CLI::App& app, int& status);

// agent/follow/follower.hpp.
int follow_log(int argc, char** argv);

// `spotter metadata refuse|release` runs with all of root's rights before the agent starts and
// after it has ended. A failure is only logged: the training goes on. Exit status 2: wrong
// arguments.
int metadata(int argc, char** argv);

// Writes the agent's status, history, and new lines of the curve from stdin to S3, once: a process
// of its own, so that its memory is freed and the agent does not wait. On failure stderr says
// why.
int publish(int argc, char** argv);

// `spotter set-up HOME COMMAND... -- WORD...` prepares the trainer's environment in HOME/setup,
// unless that is there, and becomes the trainer.
int set_up(int argc, char** argv);

// agent/supervise/supervisor.hpp. Exit status: 0 the trainer runs, 1 it could not be started (the
// reason is on stderr), 2 bad arguments or spec, 3 another supervisor has this run directory.
int supervise(int argc, char** argv);

// agent/tier/tier.hpp. `copy` prints the name of what it copied, or what is wrong; `fetch` becomes
// the command behind --, once the newest is here.
int tier(int argc, char** argv);

// Has systemd run one of our own processes as a service. `trainer`: `spotter supervise` with the
// Spec of stdin, and the same exit status. `host`: has a request of stdin done by `spotter host`,
// hands on what that prints, and is not outlived by it. `print`: a unit file as `trainer` asks for.
int unit(int argc, char** argv);

// The service's side of `host` (host/host.hpp: take_verb_request()).
int requested_verb(const std::string& file);

}  // namespace spotter::command
