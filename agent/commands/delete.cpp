// `spotter delete`: removes all that was made for a job.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/base/result.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/fleets.hpp"
#include "agent/commands/launch.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/commands/machines.hpp"
#include "agent/commands/report_sources.hpp"
#include "agent/config/experiment.hpp"
#include "agent/config/storage_name.hpp"
#include "agent/guard/record.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/requests.hpp"
#include "agent/report/published.hpp"

namespace spotter::command {
namespace {

struct DeleteOptions {
  std::string job = "job.yaml";
  bool yes = false;
};

int complain(const std::string& what, int status = 1) {
  return io::complain("delete", what, status);
}

// Its things in one region: they have the tags spotter:job and spotter:storage, which is this
// job's. A namesake's are left, and what a person made: a volume that an agent only claimed has no
// storage in its tags.
struct InRegion {
  std::unique_ptr<AwsCalls> calls;
  std::vector<JobFleet> fleets;
  std::vector<wire::Instance> instances;
  std::vector<wire::Volume> volumes;
  std::vector<wire::Snapshot> snapshots;
  std::vector<wire::LaunchTemplate> templates;

  bool is_empty() const {
    return fleets.empty() && instances.empty() && volumes.empty() && snapshots.empty() &&
           templates.empty();
  }
};

bool is_made_for(const wire::Tags& tags, const config::Job& job) {
  return wire::value_of(tags, tag::job) == job.volumes_owner() &&
         wire::value_of(tags, tag::storage) == config::storage_name(job);
}

template <class Thing>
void keep_ours(std::vector<Thing>& things, const config::Job& job) {
  std::erase_if(things, [&](const Thing& it) {
    if (is_made_for(it.tags, job)) return false;
    for (std::size_t i = 0; job.sweep && i < job.sweep->sets.size(); ++i) {
      config::Job one = job;
      set_experiment(one, i, job.sweep->sets[i]);
      if (is_made_for(it.tags, one)) return false;
    }
    return true;
  });
}

Result<InRegion, CallError> look(JobPlace& place) {
  AwsCalls& calls = *place.calls;
  const JobKey key = key_of(place.job);
  if (auto single = refuse_namesakes(calls, key); !single) return tl::unexpected(single.error());
  InRegion there;
  auto fleets = job_fleets(calls, key);
  if (!fleets) return tl::unexpected(fleets.error());
  std::erase_if(*fleets, [](const JobFleet& it) { return it.is_over(); });
  there.fleets = std::move(*fleets);
  auto instances = job_instances(calls, key);
  if (!instances) return tl::unexpected(instances.error());
  there.instances = std::move(*instances);
  const std::vector<wire::Filter> ours{
      {"tag:" + std::string(tag::job), {key.name, key.name + "-*"}}};
  auto volumes = calls.ask_all(wire::DescribeVolumes{.volumes = {}, .filters = ours});
  if (!volumes) return tl::unexpected(volumes.error());
  keep_ours(*volumes, place.job);
  there.volumes = std::move(*volumes);
  auto snapshots =
      calls.ask_all(wire::DescribeSnapshots{.snapshots = {}, .filters = ours, .next_token = {}});
  if (!snapshots) return tl::unexpected(snapshots.error());
  keep_ours(*snapshots, place.job);
  there.snapshots = std::move(*snapshots);
  for (const std::string& name :
       {launch::resource_name(place.job), launch::preparer_name(place.job)}) {
    auto templates = templates_of(calls, name);
    if (!templates) return tl::unexpected(templates.error());
    keep_ours(*templates, place.job);
    std::ranges::move(*templates, std::back_inserter(there.templates));
  }
  there.calls = std::move(place.calls);
  return there;
}

struct Objects {
  wire::S3Location at;
  std::string what;
  std::vector<std::string> keys;
  std::uint64_t bytes = 0;
};

// Below where a job is published another may publish, too.
bool is_published(std::string_view below) {
  const auto name = report::parse_published_name(below);
  if (name.kind != report::PublishedName::Kind::Other) return true;
  return std::ranges::any_of(
      std::initializer_list<std::string>{config::code_folder, config::results_folder,
                                         config::fetched_folder},
      [&](const std::string& folder) { return name.rest.starts_with(folder + "/"); });
}

Result<std::vector<Objects>> objects_of(const config::Job& job, s3::Client& client) {
  std::vector<Objects> all;
  const auto add = [&](const std::optional<wire::S3Location>& at, const char* what) {
    if (at) all.push_back({*at, what, {}, 0});
  };
  add(job.published_at(), "progress, output, results, code");
  add(job.kept_at(), "home");
  add(job.headed_at(), "the home's head");
  add(job.fenced_at(), "the fence");
  for (Objects& it : all) {
    const auto listed = s3::list(client, it.at);
    if (!listed && listed.error().kind == s3::Failure::Kind::NoSuchBucket) continue;
    if (!listed) return failure(listed.error().text());
    for (const wire::ListedObject& object : *listed) {
      const bool shared = &it == &all.front() && job.published_at();
      if (shared && !is_published(std::string_view(object.key).substr(it.at.key.size()))) continue;
      it.keys.push_back(object.key);
      it.bytes += object.size;
    }
  }
  std::erase_if(all, [](const Objects& it) { return it.keys.empty(); });
  return all;
}

void print(const InRegion& there) {
  const std::string region = there.calls->region().str();
  const auto line = [&](const char* what, const std::string& id, const std::string& more) {
    std::printf("  %-9s %-40s %s %s\n", what, id.c_str(), region.c_str(), more.c_str());
  };
  for (const JobFleet& it : there.fleets) line("fleet", it.fleet.id.str(), "");
  for (const wire::Instance& it : there.instances) line("instance", it.id.str(), it.type.str());
  for (const wire::Volume& it : there.volumes)
    line("volume", it.id.str(), std::to_string(it.size_gib) + " GiB");
  for (const wire::Snapshot& it : there.snapshots) line("snapshot", it.id.str(), "");
  for (const wire::LaunchTemplate& it : there.templates) line("template", it.name, "");
}

void print(const Objects& it) {
  std::printf("  %-9s %-40s %zu objects, %s: %s\n", "S3", wire::to_url(it.at).c_str(),
              it.keys.size(), guard::bytes_text(it.bytes).c_str(), it.what.c_str());
}

bool agrees() {
  if (::isatty(STDIN_FILENO) == 0) return false;
  std::printf("Delete all of it, for good? [y/N] ");
  std::fflush(stdout);
  std::string line;
  return std::getline(std::cin, line) && (line == "y" || line == "yes");
}

// Removes one that has not gone meanwhile. A volume is free some time after its instance's end.
template <class Request>
Result<void, CallError> remove(AwsCalls& calls, const Request& request) {
  constexpr int tries = 120;
  for (int i = 1;; ++i) {
    const auto done = calls.ask(request);
    if (done || done.error().code.ends_with(".NotFound")) return {};
    if (done.error().code != "VolumeInUse" || i == tries) return tl::unexpected(done.error());
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

Result<void, CallError> remove(const InRegion& there, const config::Job& job) {
  AwsCalls& calls = *there.calls;
  for (const wire::Volume& it : there.volumes)
    if (auto done = remove(calls, wire::DeleteVolume{it.id}); !done) return done;
  for (const wire::Snapshot& it : there.snapshots)
    if (auto done = remove(calls, wire::DeleteSnapshot{it.id}); !done) return done;
  for (const wire::LaunchTemplate& it : there.templates)
    if (auto done = calls.perform(wire::query_of(launch::delete_template(it.id))); !done)
      return tl::unexpected(done.error());
  return end_placement_group(calls, key_of(job), {.known = false, .wait = true});
}

Result<void> remove(s3::Client& client, const Objects& objects) {
  for (const std::string& key : objects.keys)
    if (auto gone = s3::remove(client, {objects.at.bucket, key}); !gone)
      return failure(gone.error().text());
  return {};
}

int run(const DeleteOptions& options) {
  const std::string file = file_of(options.job);
  if (file.empty())
    return complain(options.job + " is no file, and job.yaml here describes no job of that name",
                    wrong_input);
  const auto job = job_to_launch(file);
  if (!job) return complain(job.error().message, wrong_input);
  auto places = unnamed_places_of(*job);
  if (!places) return complain(places.error().message, wrong_input);
  std::vector<InRegion> all;
  for (JobPlace& place : *places) {
    auto there = look(place);
    if (!there) return complain(there.error().message);
    all.push_back(std::move(*there));
  }
  s3::Client client({.environment = act::Environment::of_this_process()});
  const auto objects = objects_of(*job, client);
  if (!objects) return complain(objects.error().message);
  const bool nothing = objects->empty() && std::ranges::all_of(all, &InRegion::is_empty);
  if (nothing) return std::printf("nothing is left of %s\n", job->name.str().c_str()), 0;
  std::printf("Of %s there are:\n", job->name.str().c_str());
  for (const InRegion& it : all) print(it);
  for (const Objects& it : *objects) print(it);
  std::fflush(stdout);
  if (!options.yes && !agrees())
    return complain("nothing was deleted; --yes asks nothing", wrong_input);
  // Ended first: machines on their way out write, and make snapshots.
  for (const InRegion& it : all)
    if (auto stopped = stop_job(*it.calls, key_of(*job), {.keep_instances = false, .wait = true});
        !stopped)
      return complain(stopped.error().message);
  for (InRegion& it : all) {
    JobPlace place{std::move(it.calls), *job};
    auto left = look(place);
    if (!left) return complain(left.error().message);
    if (auto gone = remove(*left, *job); !gone) return complain(gone.error().message);
  }
  const auto left = objects_of(*job, client);
  if (!left) return complain(left.error().message);
  for (const Objects& it : *left)
    if (auto gone = remove(client, it); !gone) return complain(gone.error().message);
  std::printf("all of it is deleted\n");
  return 0;
}

}  // namespace

void add_delete(CLI::App& app, int& status) {
  auto options = std::make_shared<DeleteOptions>();
  auto* command = app.add_subcommand(
      "delete",
      "Deletes all that was made for a job, after a question: fleets, instances, volumes, "
      "snapshots, templates, and what it has in S3");
  command->add_option("job", options->job, "Its description, or its name")->capture_default_str();
  command->add_flag("--yes", options->yes, "Asks nothing");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace spotter::command
