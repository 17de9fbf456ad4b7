#include "agent/tools/machine/guard.hpp"

#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <optional>

#include "agent/guard/guard.hpp"
#include "agent/host/user.hpp"

namespace spotter::command {

int guard(int argc, char** argv) {
  CLI::App app("Watches over the checkpoint files of a trainer that knows nothing of Spotter",
               "spotter guard");
  guard::Options options;
  std::string mount, as;
  app.add_option("--mount", mount, "the storage's mount point")->required();
  app.add_option("--directory", options.where.directory, "relative to it")->required();
  app.add_option("--files", options.where.files, "patterns of names")->required();
  app.add_option("--socket", options.socket, "the agent's, for datagrams")->required();
  app.add_option("--as", as, "the user as whom it is done: on a share the trainer's");
  app.add_flag("--again", options.again, "the trainer runs already");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.where.mount = mount;
  std::optional<act::host::AsUser> rights;
  if (!as.empty()) {
    const auto user = act::host::find_user(as);
    if (!user) {
      std::printf("%s\n", user.error().error.c_str());
      return 1;
    }
    options.where.as_trainer = true;
    rights.emplace(*user);
    // The change of rights has cleared it; the supervisor's death also ends stdin.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  return guard::run(options);
}

}  // namespace spotter::command
