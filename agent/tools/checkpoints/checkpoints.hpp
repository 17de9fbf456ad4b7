// `spotter checkpoints`: what the guard of a storage has kept and put away, and a person's choice
// among it.
#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

void add_checkpoints(CLI::App& app, int& status);

}  // namespace spotter::command
