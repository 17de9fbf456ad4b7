#include "agent/tools/sweep/sweep.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "agent/base/exit_status.hpp"
#include "agent/io/complain.hpp"
#include "agent/sweep/sweep_sets.hpp"
#include "agent/tools/sweep/sweep_batch.hpp"

namespace spotter::command {
namespace {

struct SweepOptions {
  std::string job = "job.yaml";
  std::optional<std::size_t> index;
  bool commands = false;
};

int expand(const SweepOptions& options) {
  const auto job = config::load_job(options.job, config::Environment::of_process());
  if (!job) {
    std::cerr << config::describe(job.error(), options.job);
    return wrong_input;
  }
  if (!job->sweep) return io::complain("sweep", options.job + " has no `sweep:`", wrong_input);
  const auto sets = sets_of(*job);
  if (!sets) return io::complain("sweep", sets.error().message, 1);
  if (options.index && *options.index >= sets->size()) {
    return io::complain("sweep",
                        "there is no set " + std::to_string(*options.index) + ": the " +
                            std::to_string(sets->size()) + " sets count from 0",
                        wrong_input);
  }
  for (std::size_t index = 0; index < sets->size(); ++index) {
    if (options.index && index != *options.index) continue;
    const auto& set = (*sets)[index];
    std::cout << (options.commands ? *sweep::fill(job->trainer.command, set)
                                   : "- " + sweep::to_json(set))
              << "\n";
  }
  return 0;
}

}  // namespace

void add_sweep(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("sweep", "Many experiments of one job");
  command->require_subcommand(1);
  auto options = std::make_shared<SweepOptions>();
  auto* all = command->add_subcommand(
      "expand", "Prints the parameter sets, a line each: a list as `sweep.parameters` reads it");
  all->add_option("job", options->job, "The job's description")->capture_default_str();
  all->add_option("--index", options->index, "Only this one, counted from 0");
  all->add_flag("--commands", options->commands,
                "Prints each set's command, made from trainer.command");
  all->callback([options, &status] { status = expand(*options); });
  add_batch(*command, status);
  add_results(*command, status);
}

}  // namespace spotter::command
