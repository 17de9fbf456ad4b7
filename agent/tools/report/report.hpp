// `spotter report`: the result of a job, as one HTML file, as text, or as JSON.
#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

void add_report(CLI::App& app, int& status);

}  // namespace spotter::command
