// `spotter delete`: removes all that was made for a job.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/base/result.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/launch.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/commands/machines.hpp"
#include "agent/commands/report_sources.hpp"
#include "agent/config/experiment.hpp"
#include "agent/guard/record.hpp"
#include "agent/launch/requests.hpp"
#include "agent/report/published.hpp"

namespace spotter::command {
namespace {

// Its things in one region: they have the tags spotter:job and spotter:storage, which is this
// job's. A namesake's are left, and what a person made: a volume that an agent only claimed has no
// storage in its tags.
struct InRegion {
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

// The storage in their tags, by the owner: the job, or each experiment of its sweep.
using Owners = std::map<std::string, std::string>;

Owners owners_of(const config::Job& job) {
  Owners owners{{job.volumes_owner(), config::storage_name(job)}};
  if (!job.sweep) return owners;
  config::Job one = job;
  for (std::size_t i = 0; i < job.sweep->sets.size(); ++i) {
    set_experiment(one = job, i, job.sweep->sets[i]);
    owners.emplace(one.volumes_owner(), config::storage_name(one));
  }
  return owners;
}

template <class Thing>
std::vector<Thing> ours(std::vector<Thing> things, const Owners& owners) {
  std::erase_if(things, [&](const Thing& it) {
    const auto owner = owners.find(wire::value_of(it.tags, tag::job));
    return owner == owners.end() || owner->second != wire::value_of(it.tags, tag::storage);
  });
  return things;
}

Result<InRegion, CallError> look(const JobPlace& place) {
  AwsCalls& calls = *place.calls;
  const JobKey key = key_of(place.job);
  const Owners owners = owners_of(place.job);
  TRY(refuse_namesakes(calls, key));
  InRegion there;
  auto fleets = TRY(job_fleets(calls, key));
  std::erase_if(fleets, [](const JobFleet& it) { return it.is_over(); });
  there.fleets = std::move(fleets);
  there.instances = TRY(job_instances(calls, key));
  const std::vector<wire::Filter> named{
      {"tag:" + std::string(tag::job), {key.name, key.name + config::before_index + "*"}}};
  auto volumes = TRY(calls.ask_all(wire::DescribeVolumes{.volumes = {}, .filters = named}));
  there.volumes = ours(std::move(volumes), owners);
  auto snapshots = TRY(
      calls.ask_all(wire::DescribeSnapshots{.snapshots = {}, .filters = named, .next_token = {}}));
  there.snapshots = ours(std::move(snapshots), owners);
  for (const std::string& name :
       {launch::resource_name(place.job), launch::preparer_name(place.job)}) {
    auto templates = TRY(templates_of(calls, name));
    std::ranges::move(ours(std::move(templates), owners), std::back_inserter(there.templates));
  }
  return there;
}

struct Objects {
  wire::S3Location at;
  std::string what;
  bool shared = false;  // others may have objects there, too
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
  const auto add = [&](const std::optional<wire::S3Location>& at, const char* what,
                       bool shared = false) {
    if (at) all.push_back({*at, what, shared});
  };
  add(job.published_at(), "progress, output, results, code", true);
  add(job.kept_at(), "home");
  add(job.headed_at(), "the home's head");
  add(job.fenced_at(), "the fence");
  for (Objects& it : all) {
    const auto listed = s3::list(client, it.at);
    if (!listed && listed.error().kind == s3::Failure::Kind::NoSuchBucket) continue;
    if (!listed) return failure(listed.error().text());
    for (const wire::ListedObject& object : listed->objects) {
      const auto below = std::string_view(object.key).substr(it.at.key.size());
      if (it.shared && !is_published(below)) continue;
      it.keys.push_back(object.key);
      it.bytes += object.size;
    }
  }
  std::erase_if(all, [](const Objects& it) { return it.keys.empty(); });
  return all;
}

void print(const InRegion& there, const std::string& region) {
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

Result<void, CallError> remove(const InRegion& there, const JobPlace& place) {
  AwsCalls& calls = *place.calls;
  for (const wire::Volume& it : there.volumes) TRY(remove(calls, wire::DeleteVolume{it.id}));
  for (const wire::Snapshot& it : there.snapshots) TRY(remove(calls, wire::DeleteSnapshot{it.id}));
  for (const wire::LaunchTemplate& it : there.templates)
    TRY(calls.perform(launch::delete_template(it.id)));
  return end_placement_group(calls, key_of(place.job), {.known = false, .wait = true});
}

Result<void> remove(s3::Client& client, const Objects& objects) {
  for (const std::string& key : objects.keys) TRY(s3::remove(client, {objects.at.bucket, key}));
  return {};
}

struct DeleteOptions {
  std::string job = "job.yaml";
  bool yes = false;
};

Result<int> run(const DeleteOptions& options) {
  const std::string file = file_of(options.job);
  if (file.empty())
    return mistake(options.job + " is no file, and job.yaml here describes no job of that name");
  const auto job = TRY(of_input(job_to_launch(file)));
  const auto places = TRY(of_input(unnamed_places_of(job)));
  std::vector<InRegion> all;
  for (const JobPlace& place : places) all.push_back(TRY(look(place)));
  s3::Client client({.environment = act::Environment::of_this_process()});
  const auto objects = TRY(objects_of(job, client));
  const bool nothing = objects.empty() && std::ranges::all_of(all, &InRegion::is_empty);
  if (nothing) return std::printf("nothing is left of %s\n", job.name.str().c_str()), 0;
  std::printf("Of %s there are:\n", job.name.str().c_str());
  for (std::size_t i = 0; i < all.size(); ++i) print(all[i], places[i].calls->region().str());
  for (const Objects& it : objects) print(it);
  std::fflush(stdout);
  if (!options.yes && !agrees("Delete all of it, for good?"))
    return mistake("nothing was deleted; --yes asks nothing");
  // Ended first: machines on their way out write, and make snapshots.
  for (const JobPlace& it : places)
    TRY(stop_job(*it.calls, key_of(it.job), {.keep_instances = false, .wait = true}));
  for (const JobPlace& it : places) {
    const auto left = TRY(look(it));
    TRY(remove(left, it));
  }
  const auto written_since = TRY(objects_of(job, client));
  for (const Objects& it : written_since) TRY(remove(client, it));
  std::printf("all of it is deleted\n");
  return 0;
}

}  // namespace

int delete_job(const std::string& file_or_name, bool yes) {
  return io::ended("delete", run(DeleteOptions{file_or_name, yes}));
}

void add_delete(CLI::App& app, int& status) {
  const auto [command, options] = add_job_command<DeleteOptions>(
      app, "delete",
      "Deletes all that was made for a job, after a question: fleets, instances, volumes, "
      "snapshots, templates, and what it has in S3",
      status, run, "Its description, or its name");
  command->add_flag("--yes", options->yes, "Asks nothing");
}

}  // namespace spotter::command
