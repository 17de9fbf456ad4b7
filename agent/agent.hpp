// `spotter agent --job FILE`: the service. Composes the real parts; the only place that knows them
// all.
#pragma once

namespace CLI {
class App;
}

namespace spotter {

// Adds the subcommand; `status` gets the exit status: 0 asked to stop, 2 a wrong job.yaml.
void add_agent(CLI::App& app, int& status);

}  // namespace spotter
