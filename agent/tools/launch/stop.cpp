// `spotter stop`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "agent/io/complain.hpp"
#include "agent/job/file.hpp"
#include "agent/job/values.hpp"
#include "agent/launch/places.hpp"
#include "agent/launch/requests.hpp"
#include "agent/tools/jobs/fleets.hpp"
#include "agent/tools/jobs/launched_job.hpp"
#include "agent/tools/jobs/placement_group.hpp"
#include "agent/tools/jobs/places.hpp"
#include "agent/tools/launch/launch.hpp"

namespace spotter::command {
namespace {

constexpr const char* of_group = "aws:autoscaling:groupName";

struct StopOptions {
  std::string job = "job.yaml";
  bool keep_instances = false;
  bool wait = false;
};

// What is to end, with AWS in each region where it may be.
struct Ends {
  JobKey key;
  // A placement group of its own: the job's description says so; of a name it is not known.
  bool has_group = false;
  bool may_have_group = true;
  std::vector<std::unique_ptr<AwsCalls>> regions;
};

// `job`: a file, or the job's name; of a name nothing is known but the region that AWS_REGION says.
Result<Ends> ends_of(const std::string& job) {
  Ends ends;
  std::error_code ignored;
  if (!std::filesystem::exists(job, ignored) && config::job_name.parse(job)) {
    ends.key = {job, {}};
    auto calls = AwsCalls::open();
    if (!calls) return tl::unexpected(calls.error());
    ends.regions.push_back(std::move(*calls));
    return ends;
  }
  const auto described = job_to_launch(job);  // what launching takes may be gone
  if (!described) return tl::unexpected(described.error());
  ends.key = key_of(*described);
  // One that is named there is a user's, whatever its name.
  ends.may_have_group =
      described->gang && !(described->launch &&
                           described->launch->placement_group == launch::resource_name(*described));
  ends.has_group =
      described->launch && described->launch->placement_group == config::own_placement_group;
  auto places = unnamed_places_of(*described);
  if (!places) return tl::unexpected(places.error());
  for (JobPlace& it : *places) ends.regions.push_back(std::move(it.calls));
  return ends;
}

// Ends instances of fleets that were asked to keep them, and of fleets that AWS no longer lists. A
// group ends its own, with time for a checkpoint.
Result<void, CallError> end_instances(AwsCalls& calls, const JobKey& job) {
  const auto left = job_instances(calls, job);
  if (!left) return tl::unexpected(left.error());
  wire::TerminateInstances request;
  for (const auto& it : *left)
    if (it.state != wire::InstanceState::ShuttingDown && !it.tags.contains(of_group))
      request.instances.push_back(it.id);
  if (request.instances.empty()) return {};
  const auto ended = calls.ask(request);
  if (!ended && !ended.error().unsettled()) return tl::unexpected(ended.error());
  return {};
}

// Nothing to end is a success, but not in silence: a mistyped name looks the same.
void remark_nothing(AwsCalls& calls, const JobKey& job) {
  const auto fleets = job_fleets(calls, job);
  const auto instances = job_instances(calls, job);
  if (!fleets || !instances || !instances->empty()) return;
  const bool any = std::ranges::any_of(
      *fleets, [](const JobFleet& it) { return it.is_at_work() || it.is_suspended(); });
  if (any) return;
  std::fprintf(stderr, "spotter: nothing of %s runs in %s: `spotter list` shows all jobs\n",
               job.name.c_str(), calls.region().str().c_str());
  if (!job.storage.empty()) return;  // then each region is ended
  for (const JobFleet& it : *fleets)
    if (const auto others = launch::regions_beyond(it.regions, {calls.region().str()});
        !others.empty())
      return (void)std::fprintf(stderr,
                                "spotter: %s may have fleets in %s: end all of it with its "
                                "description, as in `spotter stop job.yaml`\n",
                                job.name.c_str(), others.c_str());
}

// By its name alone nothing is known of the other regions, where it would go on.
Result<void, CallError> refuse_part(AwsCalls& calls, const JobKey& job) {
  const auto fleets = job_fleets(calls, job);
  if (!fleets) return tl::unexpected(fleets.error());
  for (const JobFleet& it : *fleets)
    if (const auto others = launch::regions_beyond(it.regions, {calls.region().str()});
        it.is_at_work() && !others.empty())
      return failed(job.name + " has fleets in " + others +
                    ", too: end all of it with its description, as in `spotter stop job.yaml`");
  return {};
}

int run(const StopOptions& options) {
  const auto ends = ends_of(options.job);
  if (!ends) return io::complain("stop", ends.error().message, 2);
  int status = 0;
  for (const auto& calls : ends->regions) {
    JobKey whose = ends->key;
    if (ends->key.storage.empty()) {
      auto single = refuse_namesakes(*calls, ends->key);
      if (!single) return io::complain("stop", single.error().message);
      whose.storage = std::move(*single);
      if (auto all = refuse_part(*calls, ends->key); !all)
        return io::complain("stop", all.error().message);
    }
    remark_nothing(*calls, ends->key);
    const auto stopped = stop_job(*calls, ends->key, {options.keep_instances, options.wait});
    if (!stopped) status = io::complain("stop", stopped.error().message);
    if (!stopped || options.keep_instances || !ends->may_have_group) continue;
    const auto emptied =
        end_placement_group(*calls, whose, {.known = ends->has_group, .wait = options.wait});
    if (!emptied) status = io::complain("stop", emptied.error().message);
  }
  return status;
}

}  // namespace

Result<void, CallError> stop_job(AwsCalls& calls, const JobKey& job, const Stop& how) {
  auto fleets = job_fleets(calls, job);
  if (!fleets) return tl::unexpected(fleets.error());
  std::erase_if(*fleets, [&](const JobFleet& it) {
    return !it.is_at_work() && (how.keep_instances || !it.is_suspended());
  });
  if (auto ended = end_fleets(calls, *fleets, !how.keep_instances); !ended) return ended;
  for (const JobFleet& it : *fleets)
    std::fprintf(stderr, "spotter: %s is ended%s\n", it.fleet.id.str().c_str(),
                 how.keep_instances ? "; its instances run on" : ", and so are its instances");
  if (how.keep_instances) return {};
  if (auto ended = end_instances(calls, job); !ended) return ended;
  return how.wait ? wait_for_instances_to_end(calls, job) : Result<void, CallError>{};
}

void add_stop(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "stop", "Ends the fleets and instances of a job; its volume stays, and `launch` continues");
  auto options = std::make_shared<StopOptions>();
  command->add_option("job", options->job, "The job's description, or its name")
      ->capture_default_str();
  command->add_flag("--keep-instances", options->keep_instances,
                    "Ends only the fleets: running instances continue until they are interrupted");
  command->add_flag("--wait", options->wait, "Waits until no instance is left");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace spotter::command
