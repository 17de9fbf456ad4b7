// `spotter launch`, `plan`, `watch`, `stop` and `list`: jobs on AWS, from a person's machine.
#pragma once

#include <string>

#include "agent/tools/jobs/fleets.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

// Ends the job's fleets and instances; `wait`: until none is left.
struct Stop {
  bool keep_instances = false;
  bool wait = false;
};
Result<void, CallError> stop_job(AwsCalls& calls, const JobKey& job, const Stop& how);

void add_launch(CLI::App& app, int& status);
void add_watch(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_stop(CLI::App& app, int& status);
void add_list(CLI::App& app, int& status);

}  // namespace spotter::command
