// One binary: the service, the trainer's parent, local work, and what a person asks for.
#include <CLI/CLI.hpp>
#include <cstring>
#include <memory>
#include <string>

#include "agent/act/aws/environment.hpp"
#include "agent/agent.hpp"
#include "agent/command/host.hpp"
#include "agent/command/supervise.hpp"
#include "agent/status.hpp"

int main(int argc, char** argv) {
  // For ourselves only: no help text, one line of JSON.
  if (argc > 1 && std::strcmp(argv[1], "host") == 0) {
    return spotter::command::host(argc - 1, argv + 1);
  }
  CLI::App app{"Spotter keeps a training job alive on spot instances"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "spotter 0.1.0");
  int status = 0;
  spotter::add_agent(app, status);
  spotter::command::add_supervise(app, status);
  auto* show = app.add_subcommand("status", "What the agent on this instance is doing");
  bool json = false;
  show->add_flag("--json", json, "As the agent wrote it");
  show->callback([&] {
    const auto set = spotter::act::Environment::of_this_process().get("SPOTTER_RUN");
    status = spotter::print_status(set.empty() ? "/run/spotter" : set, json);
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return status;
}
