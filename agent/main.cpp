// One binary: the service, the trainer's parent, local work, and what a person asks for.
#include <CLI/CLI.hpp>
#include <iostream>

#include "agent/commands/commands.hpp"
#include "agent/commands/machine/machine.hpp"
#include "agent/io/log.hpp"
#include "agent/service/agent.hpp"

int main(int argc, char** argv) {
  spotter::io::log_to_stderr();
  if (const auto status = spotter::command::machines_own(argc, argv)) return *status;
  CLI::App app{"Spotter keeps a training job alive on spot instances"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "spotter " SPOTTER_VERSION);
  int status = 0;
  spotter::add_agent(app, status);
  spotter::add_run(app, status);
  spotter::command::add_pipe(app, status);
  spotter::command::add_sweep(app, status);
  spotter::command::add_setup(app, status);
  spotter::command::add_init(app, status);
  spotter::command::add_fetch(app, status);
  spotter::command::add_iam(app, status);
  spotter::command::add_doctor(app, status);
  spotter::command::add_prepare(app, spotter::fill, status);
  spotter::command::add_launch(app, status);
  spotter::command::add_plan(app, status);
  spotter::command::add_wait(app, status);
  spotter::command::add_watch(app, status);
  spotter::command::add_stop(app, status);
  spotter::command::add_delete(app, status);
  spotter::command::add_list(app, status);
  spotter::command::add_status(app, status);
  spotter::command::add_logs(app, status);
  spotter::command::add_shell(app, status);
  spotter::command::add_report(app, status);
  spotter::command::add_checkpoints(app, status);
  spotter::command::add_explain(app, status);
  spotter::command::add_help(app, status);
  // Those that the shell's completion and the build of the manual ask.
  const std::string_view own = argc > 1 ? argv[1] : "";
  if (own == "complete") {
    std::cout << spotter::command::completions(app, {argv + 2, argv + argc});
    return 0;
  }
  if (own == "manual") {
    std::cout << spotter::command::manual_of(app);
    return 0;
  }
  if (const auto wrong = spotter::command::wrong_command(app, {argv + 1, argv + argc});
      !wrong.empty()) {
    std::cerr << "spotter: " << wrong << "\n";
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return status;
}
