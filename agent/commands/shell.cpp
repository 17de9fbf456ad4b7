// `spotter shell`: a terminal on a job's machine, by AWS's Session Manager: no key, no open port.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "agent/commands/commands.hpp"
#include "agent/commands/launch.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/commands/report_sources.hpp"
#include "agent/config/scalars.hpp"
#include "agent/io/child.hpp"

namespace spotter::command {
namespace {

struct ShellOptions {
  std::string job = "job.yaml";
  std::string instance;  // empty: the newest that runs
};

struct Machine {
  wire::Instance instance;
  std::string region;
};

Result<std::vector<Machine>> machines_of(const std::string& job) {
  const auto named = TRY(named_job({.job = job}));
  if (const auto name = config::job_name.parse(named.name); !name)
    return failure("there is no file " + job + ", and " + name.error().message);
  const JobKey key = named.job ? key_of(*named.job) : JobKey{named.name, {}};
  std::vector<Machine> all;
  for (const std::string& region : named.regions) {
    const auto calls = TRY(calls_in(region));
    const auto found = TRY(job_instances(*calls, key));
    for (const wire::Instance& it : found)
      if (it.state == wire::InstanceState::Running) all.push_back({it, calls->region().str()});
  }
  std::ranges::stable_sort(all, [](const Machine& one, const Machine& other) {
    return one.instance.launch_time > other.instance.launch_time;
  });
  return all;
}

Result<int> run(const ShellOptions& options) {
  const auto machines = TRY(of_input(machines_of(options.job)));
  const auto chosen = std::ranges::find_if(machines, [&](const Machine& it) {
    return options.instance.empty() || it.instance.id.view() == options.instance;
  });
  if (chosen == machines.end())
    return failure(options.instance.empty()
                       ? "no machine of " + options.job + " runs: `spotter status --job` says why"
                       : options.instance + " is no running machine of " + options.job);
  const char* path = std::getenv("PATH");
  for (const char* needed : {"aws", "session-manager-plugin"})
    if (io::find_program(needed, path != nullptr ? path : "/usr/bin:/bin").empty())
      return failure(std::string(needed) +
                     " is not installed, by which AWS opens a session: "
                     "docs.aws.amazon.com/systems-manager/latest/userguide/"
                     "session-manager-working-with-install-plugin.html");
  const std::string id = chosen->instance.id.str();
  std::fprintf(stderr,
               "spotter: a session on %s; if it is refused, its role may not: `spotter setup "
               "--shell`\n",
               id.c_str());
  io::Program({"aws", "ssm", "start-session", "--region", chosen->region, "--target", id})
      .execute_from_path();
  return failure(std::string("aws: ") + std::strerror(errno));
}

}  // namespace

void add_shell(CLI::App& app, int& status) {
  const auto [command, options] = add_job_command<ShellOptions>(
      app, "shell",
      "A terminal on a machine of the job, by AWS's Session Manager, which the roles allow only "
      "after `spotter setup --shell`",
      status, run, "The job's description, or its name");
  command->add_option("--instance", options->instance, "Its id; else the one launched last");
}

}  // namespace spotter::command
