// `spotter supervise --run-directory DIR --spec FILE|-`: see agent/supervise/supervisor.hpp.
#pragma once

namespace spotter::command {

// argv[0] is "supervise". Returns the exit status: 0 the trainer runs, 1 it could not be started
// (the reason is on stderr), 2 bad arguments or spec, 3 another supervisor has this run directory.
int supervise(int argc, char** argv);

}  // namespace spotter::command
