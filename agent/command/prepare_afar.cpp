#include "agent/command/prepare_afar.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "agent/command/launch.hpp"

namespace spotter::command {

void add_afar_options(CLI::App&, AfarOptions&) {}

AwsResult<void> fit_new_volume(config::Job& job, const Zone& zone) {
  const auto failed = [](std::string message) {
    return tl::unexpected(AwsFailure{"", std::move(message)});
  };
  const config::Tag& tag = job.storage.ebs.tag;
  if (!job.launch || !job.launch->volume)
    return failed("no volume has the tag " + tag.key + "=" + tag.value +
                  ": make one, or say `launch.volume: {size: 100}`, and it is made");
  const auto& zones = job.launch->zones;
  const bool named = std::ranges::find(zones, zone.str()) != zones.end();
  if (!named && job.launch->volume->zone != zone.str())
    return failed("the volume is to be in " + job.launch->volume->zone + ", and this is " +
                  zone.str() + ": run it on an instance of that zone");
  job.launch->volume->zone = zone.str();
  return {};
}

int prepare_afar(AwsCalls& calls, const config::Job& job, const AfarOptions& options) {
  std::string zone = job.launch && job.launch->volume ? job.launch->volume->zone : "";
  if (const auto found = volumes_of(calls, job); found && !found->empty())
    zone = found->front().zone.str();
  std::fprintf(
      stderr,
      "spotter prepare: this is no EC2 instance, and nothing is copied through it. Run "
      "it on a cheap one%s%s, with the job's instance profile:\n  sudo spotter prepare %s\n",
      zone.empty() ? "" : " in ", zone.c_str(), options.job.c_str());
  return 1;
}

}  // namespace spotter::command
