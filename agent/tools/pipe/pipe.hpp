// `spotter pipe`: runs a command with its data channels, without an agent.
#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

// Adds the subcommand; `status` receives its exit status.
void add_pipe(CLI::App& app, int& status);

}  // namespace spotter::command
