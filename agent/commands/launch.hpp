// `spotter launch`, `plan`, `watch`, `stop` and `list`: jobs on AWS, from a person's machine.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "agent/commands/fleets.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/places.hpp"

namespace spotter::command {

// Ends the job's fleets and instances; `wait`: until none is left.
struct Stop {
  bool keep_instances = false;
  bool wait = false;
};
Result<void, CallError> stop_job(AwsCalls& calls, const JobKey& job, const Stop& how);

struct JobPlace;
// By the fleets there.
launch::PlaceSeen place_seen(const JobPlace& place, const std::vector<JobFleet>& fleets);

// `spotter delete`, after a question unless `yes`; the exit status.
int delete_job(const std::string& file_or_name, bool yes);

// A command of `spotter` on a job's description, which is its first argument.

// `Options` has the member `job`, the description's path. The command and its options, which live
// as long as the command; `run` gets them, and answers with the exit status.
template <class Options>
std::pair<CLI::App*, std::shared_ptr<Options>> add_job_command(
    CLI::App& app, const char* name, const char* what, int& status,
    Result<int> (*run)(const Options&), const char* job = "The job's description") {
  auto* command = app.add_subcommand(name, what);
  auto options = std::make_shared<Options>();
  command->add_option("job", options->job, job)->capture_default_str();
  command->callback([options, &status, run, name] { status = io::ended(name, run(*options)); });
  return {command, options};
}

}  // namespace spotter::command
