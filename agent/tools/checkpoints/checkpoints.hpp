#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

void add_checkpoints(CLI::App& app, int& status);

}  // namespace spotter::command
