// The job of `spotter run [--job FILE] [--storage FOLDER] [--name NAME] [-- COMMAND...]`; this
// program's path, this machine's name, and where a service or such a run has its files.
#pragma once

#include "agent/aws/settings/settings.hpp"
#include "agent/config/experiment.hpp"

namespace spotter::command {

struct RunRequest {
  std::string job_file;              // empty: `storage` and `command` define the job
  std::string storage;               // a folder; empty: the job's own share
  std::string name;                  // empty: the job's own, or "run"
  std::string member;                // of the job's gang; empty: this machine's name
  std::vector<std::string> command;  // empty: the job's own
  bool new_command = false;          // the storage may have seen another one
};

// Refuses a volume as storage: whoever runs this owns no instance that could attach one. Chooses a
// sweep's experiment.
Result<config::Job, std::vector<config::Problem>> job_of(const RunRequest& request,
                                                         config::Environment environment,
                                                         const FetchSets& fetch);

// The folder of such a run's sockets: one folder for each user and job's folder, so that a second
// run on this machine is refused, and a restarted one finds its trainer.
std::string run_directory_of(const config::Job& job);

// An absolute path.
std::string own_program();

// Named where there is no instance id.
std::string host_name();

// The service's run directory: $SPOTTER_RUN, or /run/spotter.
std::string run_directory_of(const act::Environment& environment);

// The one that is looked at where none is named: the service's, or, where no service has run, that
// of this user's newest `spotter run`.
std::string run_directory_to_show(const act::Environment& environment);

}  // namespace spotter::command
