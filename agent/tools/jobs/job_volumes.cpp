#include "agent/tools/jobs/job_volumes.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <thread>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/job/prepare.hpp"
#include "agent/job/storage_name.hpp"
#include "agent/launch/requests.hpp"
#include "agent/sweep/sweep_sets.hpp"

namespace spotter::command {
namespace {

constexpr int looks = 60;  // one a second: a new volume usually appears within seconds
using wire::VolumeState;

bool is_gone(const wire::Volume& volume) {
  return volume.state == VolumeState::Deleting || volume.state == VolumeState::Deleted ||
         volume.state == VolumeState::Error;
}

// A volume of data, made from a user's snapshot.
bool is_of_data(const wire::Volume& volume) {
  return wire::value_of(volume.tags, tag::role) == "data";
}

// EC2 answers 200 even if the key may not be used; the volume then vanishes.
Result<void, CallError> wait_for(AwsCalls& calls, const VolumeId& id) {
  for (int look = 0; look < looks; ++look) {
    const auto seen =
        calls.ask_all(wire::DescribeVolumes{.volumes = {}, .filters = {{"volume-id", {id.str()}}}});
    if (!seen) return tl::unexpected(seen.error());
    if (!seen->empty() && seen->front().state == VolumeState::Available) return {};
    if (!seen->empty() && is_gone(seen->front())) break;
    std::this_thread::sleep_for(std::chrono::seconds{1});
  }
  return failed("the new volume " + id.str() +
                " does not become available; if it is encrypted: may you use its KMS key?");
}

bool has_found_tag(const wire::Volume& volume, const config::Job& job) {
  const config::Tag& tag = job.storage.ebs.tag;
  return wire::value_of(volume.tags, tag.key) == tag.value;
}

// A volume with the job's name but without its tag: it belongs to a namesake whose tag does not
// name its storage (made by a user or an earlier version), or it is ours and lost its tag.
Result<void, CallError> refuse_namesakes_volume(const std::vector<wire::Volume>& there,
                                                const config::Job& job) {
  const auto named = [&](const wire::Volume& it) { return has_found_tag(it, job); };
  if (std::ranges::any_of(there, named)) return {};
  const config::Tag& tag = job.storage.ebs.tag;
  const std::string own = tag.key + "=" + tag.value;
  for (const wire::Volume& it : there) {
    if (wire::value_of(it.tags, tag::role) != "state") continue;
    const std::string its = wire::value_of(it.tags, tag.key);
    return failed("two jobs are called " + job.volumes_owner() + ", or the job's volume lost its " +
                  "tag: " + it.id.str() + (its.empty() ? "" : " (" + tag.key + "=" + its + ")") +
                  " is of a job of that name, and job.yaml wants " + own +
                  ": give one of them another name, or the volume that tag");
  }
  return {};
}

Result<void, CallError> provide(AwsCalls& calls, const config::Job& job,
                                const std::string& generation) {
  const auto there = volumes_of(calls, job);
  if (!there) return tl::unexpected(there.error());
  for (const wire::Volume& volume : *there)
    if (volume.tags.contains(tag::done) && !job.sweep)
      return failed("the job is done already: " + volume.id.str() + " has the tag spotter:done; " +
                    how_to_run_again(volume));
  for (const wire::Volume& volume : *there)
    if (!job.prepare.empty() &&
        !wire::value_of(volume.tags, tag::prepared).starts_with(config::digest_of(job.prepare)))
      std::fprintf(stderr, "spotter: %s has not got what `prepare:` names: `spotter prepare`\n",
                   volume.id.str().c_str());
  if (auto own = refuse_namesakes_volume(*there, job); !own) return own;
  if (!there->empty()) return {};
  const auto snapshots = has_snapshots(calls, job);
  if (!snapshots) return tl::unexpected(snapshots.error());
  if (*snapshots) return {};
  const config::Tag& tag = job.storage.ebs.tag;
  if (!job.launch->volume)
    return failed("no volume has the tag " + tag.key + "=" + tag.value +
                  ": make one, or say `launch.volume: {size: 100}`, and it is made");
  const std::string seed = job.volumes_owner() + "\n" + tag.key + "\n" + tag.value + "\n";
  const std::string token = "spotter-" + wire::sha256_hex(seed + generation).substr(0, 40);
  const auto command = launch::create_volume(job, token);
  const auto made = calls.ask(wire::query_of(command), wire::decode<wire::CreateVolume>);
  if (!made) return tl::unexpected(made.error());
  std::fprintf(stderr, "spotter: the volume %s is made in %s (%llu GiB, %s=%s)\n",
               made->id.str().c_str(), made->zone.str().c_str(),
               static_cast<unsigned long long>(made->size_gib), tag.key.c_str(), tag.value.c_str());
  return wait_for(calls, made->id);
}

}  // namespace

Result<std::vector<wire::Volume>, CallError> volumes_of(AwsCalls& calls, const config::Job& job) {
  std::vector<wire::Volume> found;
  std::set<VolumeId> known;
  const config::Tag& tag = job.storage.ebs.tag;
  for (const wire::Filter& filter :
       {wire::tagged(tag.key, tag.value), wire::tagged(tag::job, job.volumes_owner())}) {
    auto some = calls.ask_all(wire::DescribeVolumes{.volumes = {}, .filters = {filter}});
    if (!some) return tl::unexpected(some.error());
    for (auto& volume : *some) {
      const bool others =
          !has_found_tag(volume, job) && config::is_of_other_storage(volume.tags, job);
      if (!others && !is_gone(volume) && !is_of_data(volume) && known.insert(volume.id).second)
        found.push_back(std::move(volume));
    }
  }
  return found;
}

Result<bool, CallError> has_snapshots(AwsCalls& calls, const config::Job& job) {
  wire::DescribeSnapshots request;
  request.filters = {wire::tagged(tag::job, job.volumes_owner())};
  const auto found = calls.ask_all(request);
  if (!found) return tl::unexpected(found.error());
  return std::ranges::any_of(
      *found, [&](const wire::Snapshot& it) { return !config::is_of_other_storage(it.tags, job); });
}

Result<void, CallError> provide_volumes(AwsCalls& calls, const config::Job& job,
                                        const std::string& generation) {
  if (job.storage.share) return {};
  if (!job.sweep) return provide(calls, job, generation);
  const auto sets = sets_of(job);
  if (!sets) return failed(sets.error().message);
  for (std::size_t index = 0; index < sets->size(); ++index) {
    config::Job one = job;
    set_experiment(one, index, (*sets)[index]);
    if (auto there = provide(calls, one, generation); !there) return there;
  }
  return {};
}

std::string how_to_run_again(const wire::Volume& volume) {
  const std::string place = wire::value_of(volume.tags, tag::fence);
  if (place.empty()) return "remove the tag spotter:done to run it again";
  const std::string line = wire::value_of(volume.tags, tag::lineage);
  return "to run it again, remove the tags spotter:done and spotter:fence, and the object " +
         place + (line.empty() ? volume.id.str() : line) + ".epoch";
}

}  // namespace spotter::command
