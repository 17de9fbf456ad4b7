// The commands of a machine alone; in the client's build client.cpp stands in the place of this.
#include <sysexits.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>

#include "agent/commands/commands.hpp"
#include "agent/commands/gang/gang.hpp"
#include "agent/commands/machine/machine.hpp"
#include "agent/config/gang.hpp"
#include "agent/config/run.hpp"
#include "agent/host/host.hpp"
#include "agent/io/child.hpp"
#include "agent/service/agent.hpp"
#include "agent/service/machine.hpp"
#include "agent/service/sweep/worker.hpp"
#include "agent/sweep/summary.hpp"

namespace spotter::command {

std::optional<int> machines_own(int argc, char** argv) {
  const std::string_view own = argc > 1 ? argv[1] : "";
  if (own == "follow-log") return follow_log(argc - 1, argv + 1);
  if (own == "gang") return gang(argc - 1, argv + 1);
  if (own == "guard") return guard(argc - 1, argv + 1);
  if (own == "host" && argc == 4 && std::string_view(argv[2]) == "--request")
    return requested_verb(argv[3]);
  if (own == "host") return host(argc - 1, argv + 1);
  if (own == "metadata") return metadata(argc - 1, argv + 1);
  if (own == "publish") return publish(argc - 1, argv + 1);
  if (own == "set-up") return set_up(argc - 1, argv + 1);
  if (own == "supervise") return supervise(argc - 1, argv + 1);
  if (own == "tier") return tier(argc - 1, argv + 1);
  if (own == "views") return views(argc - 1, argv + 1);
  if (own == "unit") return unit(argc - 1, argv + 1);
  return std::nullopt;
}

}  // namespace spotter::command

namespace spotter {
namespace {

// `spotter agent` and `spotter run` as commands of CLI11.

int check(const Result<config::Job, std::vector<config::Problem>>& job, const std::string& source) {
  if (!job) {
    std::cerr << config::describe(job.error(), source);
    return 2;
  }
  std::cout << source << ": the job " << job->name.view() << " is well described\n";
  return 0;
}

// Until the agent handles signals nothing has begun, so the process simply ends. Process 1 of a
// container would ignore a signal that has no handler.
void leave_when_asked() {
  for (const int signal : {SIGTERM, SIGINT})
    std::signal(signal, [](int) { ::_exit(wire::interrupted_exit_code); });
}

// An image with `spotter run` as its entry point may get a complete command as arguments, as from
// the job definitions of `spotter sweep submit`: then executes that one.
void execute_given_command(std::vector<std::string> command) {
  if (command.size() < 2 || command[0] != "spotter" || command[1] != "run") return;
  io::Program(std::move(command), {}, command::own_program()).execute();
}

}  // namespace

void add_agent(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("agent", "Runs the job of job.yaml on this instance");
  auto job = std::make_shared<std::string>("/etc/spotter/job.yaml");
  auto check = std::make_shared<bool>(false);
  auto once = std::make_shared<bool>(false);
  command->add_option("--job", *job, "The job's description")->capture_default_str();
  command->add_flag("--check", *check, "Only checks job.yaml, and says what is wrong with it");
  command->add_flag("--once", *once,
                    "For a worker: runs one experiment, and does not change the fleet");
  command->callback([job, check, once, &status] {
    const auto environment = config::Environment::of_process();
    auto read = config::load_job(*job, environment);
    if (*check) {
      status = spotter::check(read, *job);
      return;
    }
    if (read && read->code && read->code->repository.empty())
      read = tl::unexpected(std::vector<config::Problem>{
          {0, 0,
           "code.folder is a folder of the machine that launches: `spotter launch` sends it, and "
           "`spotter run` works in the current folder"}});
    if (read && read->is_handed_out() && !*once) {
      status = work(std::move(*read), *job);
      return;
    }
    if (read && read->gang) {
      const auto name = member_here();
      if (!name) {
        std::cerr << *job << ": gang: " << name.error().message << "\n";
        status = EX_TEMPFAIL;
        return;
      }
      config::join_gang(*read, *name);
    }
    if (*once) leave_when_asked();
    read = command::with_experiment(std::move(read), environment, command::sets_of);
    status = run_agent(std::move(read), *job, *once);
  });
}

void add_run(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "run",
      "Run a command under the agent's care, in the foreground: a container on AWS Batch, a "
      "Slurm task, a laptop");
  auto request = std::make_shared<command::RunRequest>();
  command->add_option("--job", request->job_file, "The job's description; else --storage is all");
  command->add_option(
      "--storage", request->storage,
      "Keep everything below this folder, which is made if its parent is there, in one of the "
      "job's name; or s3://bucket/prefix");
  command->add_option("--name", request->name, "The job's name");
  command->add_flag("--new-command", request->new_command,
                    "Goes on in a storage where another command has trained");
  command->add_option("--gang", request->member,
                      "This machine's name in the gang of job.yaml; default: its host name");
  command->add_option("command", request->command, "What is run, after --");
  command->callback([request, &status] {
    execute_given_command(request->command);
    leave_when_asked();
    auto job = command::job_of(*request, config::Environment::of_process(), command::sets_of);
    const std::string& file = request->job_file;
    status = run_agent(std::move(job), file.empty() ? "spotter run" : file, true);
  });
}

}  // namespace spotter
