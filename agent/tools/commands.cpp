// `spotter agent` and `spotter run` as commands of CLI11.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "agent/aws/formats/batch_values.hpp"
#include "agent/job/run.hpp"
#include "agent/service/agent.hpp"
#include "agent/service/sweep/worker.hpp"
#include "agent/supervise/here.hpp"
#include "agent/sweep/sweep_sets.hpp"

namespace spotter {
namespace {

int check(const config::Checked<config::Job>& job, const std::string& source) {
  if (!job) {
    std::cerr << config::describe(job.error(), source);
    return 2;
  }
  std::cout << source << ": the job " << job->name.view() << " is well described\n";
  return 0;
}

// Until the agent hears signals itself nothing has begun, and to be asked to stop is just that.
// As process 1 of a container, one without a handler would hear nothing at all.
void leave_when_asked() {
  for (const int signal : {SIGTERM, SIGINT})
    std::signal(signal, [](int) { ::_exit(wire::interrupted_exit_code); });
}

// An image whose entry point is `spotter run` may be given the whole of a command, as the job
// definitions of `spotter sweep submit` have it: then that one counts.
void become_what_is_asked(std::vector<std::string> command) {
  if (command.size() < 2 || command[0] != "spotter" || command[1] != "run") return;
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (auto& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  ::execv(command::own_program().c_str(), words.data());
}

}  // namespace

void add_agent(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("agent", "Watch over the job of job.yaml on this instance");
  auto job = std::make_shared<std::string>("/etc/spotter/job.yaml");
  auto check = std::make_shared<bool>(false);
  auto once = std::make_shared<bool>(false);
  command->add_option("--job", *job, "The job's description")->capture_default_str();
  command->add_flag("--check", *check, "Only say what is wrong with it");
  command->add_flag("--once", *once, "For a worker: one experiment, and no say over the fleet");
  command->callback([job, check, once, &status] {
    const auto environment = config::Environment::of_process();
    auto read = config::load_job(*job, environment);
    if (*check) {
      status = spotter::check(read, *job);
      return;
    }
    if (read && read->is_handed_out() && !*once) {
      status = work(std::move(*read), *job);
      return;
    }
    if (*once) leave_when_asked();
    read = command::with_experiment(std::move(read), environment, command::sets_of);
    status = live(std::move(read), *job, *once);
  });
}

void add_run(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "run",
      "Run a command under the agent's care, in the foreground: a container on AWS Batch, a "
      "Slurm task, a laptop");
  auto request = std::make_shared<command::RunRequest>();
  command->add_option("--job", request->job_file, "The job's description; else --storage is all");
  command->add_option("--storage", request->storage,
                      "Keep everything below this folder, in one of the job's name");
  command->add_option("--name", request->name, "The job's name");
  command->add_option("command", request->command, "What is run, after --");
  command->callback([request, &status] {
    become_what_is_asked(request->command);
    leave_when_asked();
    auto job = command::job_of(*request, config::Environment::of_process(), command::sets_of);
    const std::string& file = request->job_file;
    status = live(std::move(job), file.empty() ? "spotter run" : file, true);
  });
}

}  // namespace spotter
