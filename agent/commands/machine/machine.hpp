// Commands that only a machine runs: guard, views, pipe, follow-log, metadata, publish, set-up,
// supervise, tier, unit.
//
// `spotter follow-log`: see agent/follow/follower.hpp. The supervisor runs it; a person does not.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace spotter::command {

// The status to end with where that is all: the arguments are wrong, or only ask for help.
std::optional<int> parsed(CLI::App& app, int argc, char** argv);

// `spotter guard`: see agent/guard/guard.hpp. The supervisor runs it; a person does not.
int guard(int argc, char** argv);

// `spotter views`: mounts the trainer's views of data, or detaches them. Process 1 runs it with all
// of root's rights before the trainer starts and after it has ended; the descriptors go to the
// store of the trainer's unit (FileDescriptorStoreMax=).
int views(int argc, char** argv);

// `spotter pipe`: feeds the job's channels.
void add_pipe(CLI::App& app, int& status);

int follow_log(int argc, char** argv);

// `spotter metadata refuse|release`: systemd/spotter.service runs it, with all of root's rights,
// before its agent starts and after it has ended.

// refuse: makes the instance metadata service refuse the trainer's user, unless job.yaml allows it,
// or that user is root or the agent's own. release: ends that, unless a trainer runs. Failures are
// only logged as warnings: the training goes on. Exit status 2: wrong arguments.
int metadata(int argc, char** argv);

// `spotter publish`, a child of the agent's: writes its status, history and learning curve to S3,
// once. It is a process of its own, so that its memory is freed and the agent does not wait.

// Reads new lines of the curve from stdin. 0: all is written; else stderr says why not.
int publish(int argc, char** argv);

// `spotter set-up HOME COMMAND... -- WORD...`: the trainer's shell runs it.
// Prepares its environment in HOME/setup, unless that is there, and becomes the trainer.
int set_up(int argc, char** argv);

// `spotter supervise --run-directory DIR --spec FILE|-`: see agent/supervise/supervisor.hpp.

// argv[0] is "supervise". Returns the exit status: 0 the trainer runs, 1 it could not be started
// (the reason is on stderr), 2 bad arguments or spec, 3 another supervisor has this run directory.
int supervise(int argc, char** argv);

// `spotter tier`: see agent/tier/tier.hpp. The guard and the trainer's shell run it; a person does
// not.
//
//   spotter tier copy ...                     prints the name of what it copied, or what is wrong
//   spotter tier fetch ... -- COMMAND WORD... becomes this command, once the newest is here
int tier(int argc, char** argv);

// `spotter unit`: asks systemd to run one of our own processes as a service.

// `trainer`: starts `spotter supervise` with the Spec of stdin as spotter-trainer-NAME.service, and
// returns once the trainer runs: as `spotter supervise` itself, with the same exit status.
// `host`: has a request of stdin done by `spotter host` in a service, hands on what that prints,
// and is not outlived by it. `print`: a unit file of what `trainer` asks for.
int unit(int argc, char** argv);

// The service's side of `host`: does what the file asks for (host/host.hpp: take_verb_request()).
int requested_verb(const std::string& file);

}  // namespace spotter::command
