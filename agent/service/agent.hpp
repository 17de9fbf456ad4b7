// `spotter agent --job FILE`: the service. `spotter run -- COMMAND`: the same in the foreground,
// for one session. Composes the real parts, and is the only place that includes them all.
#pragma once

#include "agent/config/job.hpp"

namespace CLI {
class App;
}

namespace spotter {

// Runs the job to its end in this process; returns the exit status. `source` names where a wrong
// job was read from. `once`: `spotter run`.
int run_agent(Result<config::Job, std::vector<config::Problem>> job, const std::string& source,
              bool once);

// `spotter prepare`: fills the job's volume and releases it. 0: it is filled, marked and free. 75
// (EX_TEMPFAIL): asked to stop, or the instance ends. 1: failed, the log says why.
int fill(config::Job job);

// Adds the subcommand; `status` gets the exit status: 0 asked to stop, 2 a wrong job.yaml, 75
// (EX_TEMPFAIL) S3 does not return the list of its sweep now.
void add_agent(CLI::App& app, int& status);

// 0: finished. 75 (EX_TEMPFAIL): interrupted, or the list of the sweep is unavailable now; to be
// run again. 2: a wrong job. 1: given up for another reason (a limit, or nobody acted). Any other:
// the failed trainer's own exit status (128 + the signal that ended it).
void add_run(CLI::App& app, int& status);

}  // namespace spotter
