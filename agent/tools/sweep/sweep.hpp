// `spotter sweep`: which experiments a job has.
#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

void add_sweep(CLI::App& app, int& status);
void add_results(CLI::App& sweep, int& status);  // sweep_results.cpp

}  // namespace spotter::command
