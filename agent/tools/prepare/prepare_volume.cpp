// Finds the volume to prepare if nothing uses it; else says what to do.

#include <chrono>
#include <thread>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/launch/requests.hpp"
#include "agent/tools/jobs/fleets.hpp"
#include "agent/tools/jobs/job_volumes.hpp"
#include "agent/tools/prepare/prepare.hpp"

namespace spotter::command {
namespace {

constexpr std::chrono::seconds detach_looked_at_every{1};
constexpr std::chrono::seconds volume_patience{120};  // a detach usually takes seconds

using wire::AttachmentState;
using wire::value_of;

const wire::Attachment* holder(const wire::Volume& volume) {
  for (const wire::Attachment& it : volume.attachments)
    if (it.state != AttachmentState::Detached) return &it;
  return nullptr;
}

// Nobody is about to use it, or does.
Result<void, CallError> nobody_else(AwsCalls& calls, const config::Job& job,
                                    const InstanceId& self) {
  const std::string stop = "end it first: `spotter stop " + job.name.str() + " --wait`";
  const auto fleets = job_fleets(calls, key_of(job));
  if (!fleets) return tl::unexpected(fleets.error());
  for (const JobFleet& it : *fleets)
    if (it.is_at_work() && it.role != launch::role_of_preparers)
      return failed("the job's fleet " + it.fleet.id.str() + " is at work: " + stop);
  const auto instances = job_instances(calls, key_of(job));
  if (!instances) return tl::unexpected(instances.error());
  for (const wire::Instance& it : *instances)
    if (it.id != self && value_of(it.tags, tag::role) != launch::role_of_preparers)
      return failed("the job's instance " + it.id.str() + " is " + std::string(to_text(it.state)) +
                    ": " + stop);
  return {};
}

}  // namespace

Result<std::optional<wire::Volume>, CallError> free_volume(AwsCalls& calls, const config::Job& job,
                                                           const InstanceId& self) {
  if (auto free = nobody_else(calls, job, self); !free) return tl::unexpected(free.error());
  const auto found = volumes_of(calls, job);
  if (!found) return tl::unexpected(found.error());
  const std::string move = "a move to another zone is under way: launch the job, which ends it";
  if (found->size() > 1)
    return failed("the job has " + std::to_string(found->size()) + " volumes (" +
                  (*found)[0].id.str() + ", " + (*found)[1].id.str() + "...): " + move);
  if (found->empty()) {
    const auto snapshots = has_snapshots(calls, job);
    if (!snapshots) return tl::unexpected(snapshots.error());
    if (*snapshots) return failed("the job has a snapshot and no volume: " + move);
    return std::optional<wire::Volume>();
  }
  const wire::Volume& volume = found->front();
  const std::string id = volume.id.str();
  const std::string owner = value_of(volume.tags, tag::job);
  if (!owner.empty() && owner != job.volumes_owner())
    return failed(id + " is of the job " + owner + ": give this one a tag of its own");
  const std::string role = value_of(volume.tags, tag::role);
  if (role == "candidate" || role == "verified") return failed(id + " is a copy: " + move);
  if (volume.tags.contains(tag::done))
    return failed("the job is done already: " + id + " has the tag spotter:done; " +
                  how_to_run_again(volume));
  const wire::Attachment* held = holder(volume);
  if (held != nullptr && held->instance != self)
    return failed(id + " is attached to " + held->instance.str() +
                  ": wait for its end, or detach it there");
  return std::optional(volume);
}

Result<void, CallError> await_free(AwsCalls& calls, const VolumeId& id, const InstanceId& self) {
  using Clock = std::chrono::steady_clock;
  for (const auto until = Clock::now() + volume_patience; Clock::now() < until;) {
    const auto seen =
        calls.ask_all(wire::DescribeVolumes{.volumes = {}, .filters = {{"volume-id", {id.str()}}}});
    if (!seen) return tl::unexpected(seen.error());
    const wire::Attachment* held = seen->empty() ? nullptr : holder(seen->front());
    if (held == nullptr || held->instance != self) return {};
    std::this_thread::sleep_for(detach_looked_at_every);
  }
  return failed(id.str() + " is still attached here: run `spotter prepare` again");
}

}  // namespace spotter::command
