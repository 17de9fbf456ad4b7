#include "agent/command/guard.hpp"

#include <CLI/CLI.hpp>

#include "agent/guard/guard.hpp"

namespace spotter::command {

int guard(int argc, char** argv) {
  CLI::App app("Watches over the checkpoint files of a trainer that knows nothing of Spotter",
               "spotter guard");
  guard::Options options;
  std::string mount;
  app.add_option("--mount", mount, "the storage's mount point")->required();
  app.add_option("--directory", options.where.directory, "relative to it")->required();
  app.add_option("--files", options.where.files, "patterns of names")->required();
  app.add_option("--socket", options.socket, "the agent's, for datagrams")->required();
  app.add_flag("--again", options.again, "the trainer runs already");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.where.mount = mount;
  return guard::run(options);
}

}  // namespace spotter::command
