// `spotter init`: writes a first job.yaml, from answers, the git checkout and the account.
#pragma once

namespace CLI {
class App;
}

namespace spotter::command {

void add_init(CLI::App& app, int& status);

}  // namespace spotter::command
