// `spotter explain NAME`: what a kind of event of the journal means, and what there is to do.
#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

void add_explain(CLI::App& app, int& status);

}  // namespace spotter::command
