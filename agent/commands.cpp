// `spotter agent` and `spotter run` as commands of CLI11.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "agent/agent.hpp"
#include "agent/command/run.hpp"
#include "agent/command/sweep.hpp"

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

}  // namespace

void add_agent(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("agent", "Watch over the job of job.yaml on this instance");
  auto job = std::make_shared<std::string>("/etc/spotter/job.yaml");
  auto check = std::make_shared<bool>(false);
  command->add_option("--job", *job, "The job's description")->capture_default_str();
  command->add_flag("--check", *check, "Only say what is wrong with it");
  command->callback([job, check, &status] {
    const auto environment = config::Environment::of_process();
    auto read = config::load_job(*job, environment);
    if (*check) {
      status = spotter::check(read, *job);
      return;
    }
    read = command::with_experiment(std::move(read), environment, command::sets_of);
    status = live(std::move(read), *job, false);
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
    auto job = command::job_of(*request, config::Environment::of_process(), command::sets_of);
    const std::string& file = request->job_file;
    status = live(std::move(job), file.empty() ? "spotter run" : file, true);
  });
}

}  // namespace spotter
