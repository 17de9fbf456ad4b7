#include "agent/tools/machine/metadata.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "agent/aws/settings/settings.hpp"
#include "agent/host/metadata.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/log.hpp"
#include "agent/job/job.hpp"
#include "agent/supervise/client.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;
namespace work = act::host;

bool trains_in(const std::string& directory) {
  const auto seen = supervise::look(directory);
  return seen && (std::holds_alternative<supervise::Running>(*seen) ||
                  std::holds_alternative<supervise::Starting>(*seen));
}

// In the run directory, or, for a worker's experiments, in one below it.
bool trains(const std::string& directory) {
  if (trains_in(directory)) return true;
  std::error_code ignored;
  for (const auto& below : fs::directory_iterator(directory, ignored))
    if (below.is_directory(ignored) && trains_in(below.path())) return true;
  return false;
}

void release() {
  if (!trains(run_directory_of(act::Environment::of_this_process()))) work::release_metadata();
}

// The agent reports mistakes in job.yaml or its user. A trainer that is running then stays refused.
void refuse(const std::string& file) {
  const auto job = config::load_job(file, config::Environment::of_process());
  if (!job) return release();
  if (job->trainer.imds_allowed) return work::release_metadata();
  const auto user = work::find_user(job->trainer.user);
  if (!user || user->uid == 0 || user->uid == ::geteuid()) return work::release_metadata();
  if (const auto refused = work::refuse_metadata_to(user->uid); !refused)
    spdlog::warn("the metadata service cannot be kept from the trainer's user {}: {}", user->name,
                 refused.error().message);
}

}  // namespace

int metadata(int argc, char** argv) {
  CLI::App app("Keeps the trainer's user from the instance metadata service", "spotter metadata");
  std::string file = "/etc/spotter/job.yaml";
  app.add_option("--job", file);
  app.require_subcommand(1);
  app.add_subcommand("refuse")->callback([&] { refuse(file); });
  app.add_subcommand("release")->callback(release);
  io::set_up_log();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}

}  // namespace spotter::command
