// `spotter agent --job FILE`: the service. `spotter run -- COMMAND`: the same in the foreground,
// for one life. Composes the real parts; the only place that knows them all.
#pragma once

#include <string>

#include "agent/job/job.hpp"

namespace CLI {
class App;
}

namespace spotter {

// Watches over the job until its end, in this process; the exit status. `source` says what a wrong
// job was read from. `once`: `spotter run`.
int live(config::Checked<config::Job> job, const std::string& source, bool once);

// `spotter prepare`: fills the job's volume and lets go of it. 0: it is filled, marked and free. 75
// (EX_TEMPFAIL): asked to stop, or the instance ends. 1: the log says what is in the way.
int fill(config::Job job);

// Adds the subcommand; `status` gets the exit status: 0 asked to stop, 2 a wrong job.yaml, 75
// (EX_TEMPFAIL) S3 does not give the list of its sweep now.
void add_agent(CLI::App& app, int& status);

// 0: finished. 75 (EX_TEMPFAIL): interrupted (or the list of the sweep is not to be had now), to be
// run again. 2: a wrong job. 1: given up for another reason (a limit, nobody acted). Else the
// trainer's own exit status, when it failed (128 + the signal that ended it).
void add_run(CLI::App& app, int& status);

}  // namespace spotter
