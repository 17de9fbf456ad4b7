// `spotter status`: what the agent on this machine does.
#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

void add_status(CLI::App& app, int& status);

}  // namespace spotter::command
