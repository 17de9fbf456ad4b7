#include "agent/commands/prepare_here.hpp"

#include <algorithm>
#include <thread>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/commands/fleets.hpp"
#include "agent/commands/job_storage.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/requests.hpp"
#include "agent/sweep/summary.hpp"

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

// Fails if a fleet or an instance of the job uses it, or is about to.
Result<void, CallError> nobody_else(AwsCalls& calls, const config::Job& job,
                                    const InstanceId& self) {
  const std::string stop = "end it first: `spotter stop " + job.name.str() + " --wait`";
  const auto fleets = TRY(job_fleets(calls, key_of(job)));
  for (const JobFleet& it : fleets)
    if (it.is_at_work() && it.role != launch::role_of_preparers)
      return failed("the job's fleet " + it.fleet.id.str() + " is at work: " + stop);
  const auto instances = TRY(job_instances(calls, key_of(job)));
  for (const wire::Instance& it : instances)
    if (it.id != self && value_of(it.tags, tag::role) != launch::role_of_preparers)
      return failed("the job's instance " + it.id.str() + " is " + std::string(to_text(it.state)) +
                    ": " + stop);
  return {};
}

// The volume, which is made if there is none. Each refusal says what to do; what happens after this
// look, the agent's core sees.
Result<VolumeId, CallError> provide(AwsCalls& calls, const config::Job& job,
                                    const wire::Identity& here) {
  auto found = TRY(free_volume(calls, job, here.instance));
  if (!found && job.sending) return failed("the job has no volume");
  if (!found) {
    config::Job alone = job;
    alone.sweep.reset();  // only this experiment's volume
    if (alone.launch) TRY(name_zones(calls, *alone.launch));
    TRY(fit_new_volume(alone, here.zone));
    // The same request for one minute: two concurrent calls make one volume.
    const auto minute = std::chrono::floor<std::chrono::minutes>(std::chrono::system_clock::now());
    TRY(provide_volumes(calls, alone,
                        "prepare " + std::to_string(minute.time_since_epoch().count())));
    found = TRY(free_volume(calls, job, here.instance));
    if (!found) return failed("the new volume is not seen yet: run it again");
  }
  const wire::Volume& volume = *found;
  if (volume.zone == here.zone) return volume.id;
  return failed(volume.id.str() + " is in " + volume.zone.str() + ", and this instance in " +
                here.zone.str() + ": run it on one of that zone");
}

// Waits until EC2 shows it as released by this instance.
Result<void, CallError> await_free(AwsCalls& calls, const VolumeId& id, const InstanceId& self) {
  using Clock = std::chrono::steady_clock;
  for (const auto until = Clock::now() + volume_patience; Clock::now() < until;) {
    const auto seen = TRY(calls.ask_all(
        wire::DescribeVolumes{.volumes = {}, .filters = {{"volume-id", {id.str()}}}}));
    const wire::Attachment* held = seen.empty() ? nullptr : holder(seen.front());
    if (held == nullptr || held->instance != self) return {};
    std::this_thread::sleep_for(detach_looked_at_every);
  }
  return failed(id.str() + " is still attached here: run `spotter prepare` again");
}

Result<int> prepare_one(AwsCalls& calls, const config::Job& job, const wire::Identity& here,
                        const std::function<int(config::Job)>& fill_here,
                        const std::atomic<bool>& stop) {
  if (job.storage.share) {  // of `spotter fetch`
    if (auto free = nobody_else(calls, job, here.instance); !free)
      return io::complain("fetch", free.error().message);
    return fill_here(job);
  }
  const auto volume = TRY(provide(calls, job, here));
  if (stop) return wire::interrupted_exit_code;
  io::complain("prepare", volume.str() + (job.sending ? " is read on " : " is prepared on ") +
                              here.instance.str() + " in " + here.zone.str());
  const int status = fill_here(job);
  TRY(await_free(calls, volume, here.instance));
  if (status == 0)
    io::complain("prepare", volume.str() + (job.sending ? " is free" : " is ready, and free"));
  if (status == wire::interrupted_exit_code)
    io::complain("prepare", "stopped; what is there stays: run it again");
  return status;
}

}  // namespace

Result<std::optional<wire::Volume>, CallError> free_volume(AwsCalls& calls, const config::Job& job,
                                                           const InstanceId& self) {
  TRY(nobody_else(calls, job, self));
  if (job.storage.share) return std::optional<wire::Volume>();
  const auto found = TRY(volumes_of(calls, job));
  const std::string move = "a move to another zone is under way: launch the job, which ends it";
  if (found.size() > 1)
    return failed("the job has " + std::to_string(found.size()) + " volumes (" + found[0].id.str() +
                  ", " + found[1].id.str() + "...): " + move);
  if (found.empty()) {
    const auto snapshots = TRY(has_snapshots(calls, job));
    if (snapshots) return failed("the job has a snapshot and no volume: " + move);
    return std::optional<wire::Volume>();
  }
  const wire::Volume& volume = found.front();
  const std::string id = volume.id.str();
  const std::string owner = value_of(volume.tags, tag::job);
  if (!owner.empty() && owner != job.volumes_owner())
    return failed(id + " is of the job " + owner + ": give this one a tag of its own");
  const std::string role = value_of(volume.tags, tag::role);
  if (role == "candidate" || role == "verified") return failed(id + " is a copy: " + move);
  if (volume.tags.contains(tag::done) && !job.sending)
    return failed("the job is done already: " + id + " has the tag spotter:done; " +
                  how_to_run_again(volume));
  const wire::Attachment* held = holder(volume);
  if (held != nullptr && held->instance != self)
    return failed(id + " is attached to " + held->instance.str() +
                  ": wait for its end, or detach it there");
  return std::optional(volume);
}

Result<void, CallError> fit_new_volume(config::Job& job, const Zone& zone) {
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

Result<int> prepare_here(AwsCalls& calls, const config::Job& job, const wire::Identity& here,
                         const std::function<int(config::Job)>& fill_here,
                         const std::atomic<bool>& stop) {
  if (!job.sweep) return prepare_one(calls, job, here, fill_here, stop);
  const auto sets = TRY(sets_of(job));
  for (std::size_t index = 0; index < sets.size(); ++index) {
    config::Job one = job;
    set_experiment(one, index, sets[index]);
    if (const int status = TRY(prepare_one(calls, one, here, fill_here, stop)); status != 0)
      return status;
  }
  return 0;
}

}  // namespace spotter::command
