#include "agent/commands/machine/machine.hpp"

#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "agent/guard/guard.hpp"
#include "agent/host/verb.hpp"

namespace spotter::command {

int guard(int argc, char** argv) {
  CLI::App app("Watches over the checkpoint files of a trainer that knows nothing of Spotter",
               "spotter guard");
  guard::Options options;
  std::string mount, as, copies, job, user, metric;
  bool smallest = false;
  app.add_option("--mount", mount, "the storage's mount point")->required();
  app.add_option("--directory", options.where.directory, "relative to it")->required();
  auto* which = app.add_option_group("which", "one of the two; neither: all that is there");
  which->add_option("--files", options.where.files, "patterns of names");
  which->add_option("--folders", options.where.folders, "of folders that are one checkpoint each");
  which->require_option(0, 1);
  app.add_option("--set", options.set, "patterns of the names of one save, with {step}");
  app.add_option("--log", options.where.log, "of metrics, durable before a checkpoint is recorded");
  app.add_option("--socket", options.socket, "the agent's, for datagrams")->required();
  app.add_option("--as", as, "the user who does it: on a share the trainer's");
  auto* to = app.add_option("--copies", copies, "s3://bucket/prefix/, for finished folders");
  app.add_option("--job", job, "whose they are there")->needs(to);
  app.add_option("--user", user, "the trainer's, who copies them")->needs(to);
  auto* best = app.add_option("--best", metric, "keep the best checkpoint by this metric, too");
  app.add_flag("--smallest", smallest, "of which the smallest value is best")->needs(best);
  app.add_flag("--again", options.again, "the trainer runs already");
  if (const auto over = parsed(app, argc, argv)) return *over;
  options.where.mount = mount;
  if (!metric.empty()) options.best = {metric, !smallest};
  if (!copies.empty())
    options.copying = {"/proc/self/exe",
                       "tier",
                       "copy",
                       "--mount",
                       mount,
                       "--directory",
                       options.where.directory,
                       "--folders",
                       options.where.folders,
                       "--to",
                       copies,
                       "--job",
                       job,
                       "--as",
                       user};
  std::optional<act::host::AsUser> rights;
  if (!as.empty()) {
    const auto user = act::host::find_user(as);
    if (!user) {
      std::printf("%s\n", user.error().message.c_str());
      return 1;
    }
    options.where.as_trainer = true;
    rights.emplace(*user);
    // The change of identity cleared it. (The supervisor's death also closes stdin.)
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  return guard::run(options);
}

}  // namespace spotter::command
