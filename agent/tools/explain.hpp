// `spotter explain NAME`: what a kind of journal event means, and what to do about it.
#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

void add_explain(CLI::App& app, int& status);

}  // namespace spotter::command
