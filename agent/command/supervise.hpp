// `spotter supervise --run-directory DIR --spec FILE|-`: see agent/supervise/supervisor.hpp.
#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

// Adds the subcommand; when it is given on the command line it runs during parsing and leaves the
// process' exit status in `status`: 0 the trainer runs, 1 it could not be started (why is on
// stderr), 2 bad spec, 3 another supervisor has this run directory.
void add_supervise(CLI::App& app, int& status);

}  // namespace spotter::command
