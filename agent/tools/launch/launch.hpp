// `spotter launch`, `stop` and `list`: jobs on AWS from where a person sits.
#pragma once

#include <string>

#include "agent/tools/jobs/fleets.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

// Ends the job's fleets and instances; what is left of them is waited for when `wait`.
struct Stop {
  bool keep_instances = false;
  bool wait = false;
};
AwsResult<void> stop_job(AwsCalls& calls, const JobKey& job, const Stop& how);

void add_launch(CLI::App& app, int& status);
void add_stop(CLI::App& app, int& status);
void add_list(CLI::App& app, int& status);

}  // namespace spotter::command
