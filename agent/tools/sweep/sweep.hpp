// `spotter sweep`: the experiments of a job.
#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

void add_sweep(CLI::App& app, int& status);
void add_results(CLI::App& sweep, int& status);  // sweep_results.cpp

}  // namespace spotter::command
