// The volume that is prepared, as EC2 has it: free, attached, claimed, free again.
#include <charconv>
#include <chrono>
#include <thread>

#include "agent/command/fleets.hpp"
#include "agent/command/launch.hpp"
#include "agent/command/prepare.hpp"
#include "agent/launch/requests.hpp"
#include "agent/wire/ec2_words.hpp"

namespace spotter::command {
namespace {

using Clock = std::chrono::steady_clock;
using wire::AttachmentState;
using wire::value_of;
using wire::VolumeState;

constexpr std::chrono::seconds between_looks{1};
// Mostly some seconds; where it hangs, another device's name helps, or another try.
constexpr std::chrono::seconds patience{120};
constexpr int device_names = 11;  // /dev/sd[f-p]

const wire::Attachment* holder(const wire::Volume& volume) {
  for (const wire::Attachment& it : volume.attachments)
    if (it.state != AttachmentState::Detached) return &it;
  return nullptr;
}

AwsResult<std::optional<wire::Volume>> look(AwsCalls& calls, const VolumeId& id) {
  const auto seen =
      calls.ask_all(wire::DescribeVolumes{.volumes = {}, .filters = {{"volume-id", {id.str()}}}});
  if (!seen) return tl::unexpected(seen.error());
  if (seen->empty()) return std::optional<wire::Volume>();
  return std::optional(seen->front());
}

// Nobody is about to use it, or does.
AwsResult<void> nobody_else(AwsCalls& calls, const config::Job& job, const InstanceId& self) {
  const std::string stop = "end it first: `spotter stop " + job.name.str() + " --wait`";
  const auto fleets = job_fleets(calls, job.name.str());
  if (!fleets) return tl::unexpected(fleets.error());
  for (const JobFleet& it : *fleets)
    if (it.is_at_work() && !it.prepares)
      return failed("the job's fleet " + it.fleet.id.str() + " is at work: " + stop);
  const auto instances = job_instances(calls, job.name.str());
  if (!instances) return tl::unexpected(instances.error());
  for (const wire::Instance& it : *instances)
    if (it.id != self && value_of(it.tags, launch::tag::role) != launch::role_of_preparers)
      return failed("the job's instance " + it.id.str() + " is " + std::string(to_text(it.state)) +
                    ": " + stop);
  return {};
}

std::uint32_t generation_of(const wire::Tags& tags) {
  const std::string text = value_of(tags, "spotter:generation");
  std::uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

AwsResult<std::optional<wire::Volume>> free_volume(AwsCalls& calls, const config::Job& job,
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
  const std::string owner = value_of(volume.tags, "spotter:job");
  if (!owner.empty() && owner != job.volumes_owner())
    return failed(id + " is of the job " + owner + ": give this one a tag of its own");
  const std::string role = value_of(volume.tags, "spotter:role");
  if (role == "candidate" || role == "verified") return failed(id + " is a copy: " + move);
  if (volume.tags.contains("spotter:done"))
    return failed("the job is done already: " + id +
                  " has the tag spotter:done; remove that to run it again");
  const wire::Attachment* held = holder(volume);
  if (held != nullptr && held->instance != self)
    return failed(id + " is attached to " + held->instance.str() +
                  ": wait for its end, or detach it there");
  return std::optional(volume);
}

AwsResult<std::string> attach(AwsCalls& calls, const wire::Volume& volume, const InstanceId& self,
                              const Stopping& stop) {
  const auto until = Clock::now() + patience;
  bool asked = holder(volume) != nullptr;
  for (int name = 0; Clock::now() < until && !stop();) {
    if (!asked) {
      const std::string device = std::string("/dev/sd") + static_cast<char>('f' + name);
      const auto attached = calls.ask(wire::AttachVolume{volume.id, self, device});
      asked = attached.has_value() || attached.error().unsettled;
      const bool taken =
          !asked && attached.error().message.find("already in use") != std::string::npos;
      if (taken && ++name < device_names) continue;
      // A volume that is just made may not be known everywhere.
      const bool passing = !asked && attached.error().code == "InvalidVolume.NotFound";
      if (!asked && !passing) return tl::unexpected(attached.error());
    }
    const auto seen = look(calls, volume.id);
    if (!seen) return tl::unexpected(seen.error());
    const wire::Attachment* held = *seen ? holder(**seen) : nullptr;
    if (held != nullptr && held->instance != self)
      return failed(volume.id.str() + " is attached to " + held->instance.str() + " now");
    if (held != nullptr && held->state == AttachmentState::Attached) return held->device;
    if (held != nullptr && held->state == AttachmentState::Detaching) asked = false;
    std::this_thread::sleep_for(between_looks);
  }
  return failed(stop() ? "stopped" : volume.id.str() + " is not attached within two minutes");
}

AwsResult<void> claim(AwsCalls& calls, const config::Job& job, const VolumeId& volume) {
  const auto before = look(calls, volume);
  if (!before) return tl::unexpected(before.error());
  if (!*before) return failed(volume.str() + " is gone");
  const std::uint32_t mine = generation_of((**before).tags) + 1;
  const wire::Tags tags{{"spotter:job", job.volumes_owner()},
                        {"spotter:role", "state"},
                        {"spotter:generation", std::to_string(mine)}};
  if (const auto set = calls.ask(wire::CreateTags{{volume.str()}, tags}); !set)
    return tl::unexpected(set.error());
  for (const auto until = Clock::now() + patience; Clock::now() < until;) {
    const auto seen = look(calls, volume);
    if (!seen) return tl::unexpected(seen.error());
    const std::uint32_t there = *seen ? generation_of((**seen).tags) : 0;
    if (there == mine) return {};
    if (there > mine) return failed(volume.str() + " was claimed by somebody else meanwhile");
    std::this_thread::sleep_for(between_looks);
  }
  return failed("the claim on " + volume.str() + " (spotter:generation) does not show");
}

AwsResult<void> detach(AwsCalls& calls, const VolumeId& volume, const InstanceId& self) {
  std::string why = "it does not end within two minutes";
  for (const auto until = Clock::now() + patience; Clock::now() < until;) {
    const auto seen = look(calls, volume);
    const wire::Attachment* held = seen && *seen ? holder(**seen) : nullptr;
    if (seen && (held == nullptr || held->instance != self)) return {};
    if (held != nullptr && held->state != AttachmentState::Detaching) {
      const auto asked = calls.ask(wire::DetachVolume{volume, self});
      if (!asked) why = asked.error().message;
      if (!asked && asked.error().permission) break;
    }
    std::this_thread::sleep_for(between_looks);
  }
  return failed(volume.str() + " is still attached to " + self.str() + ": " + why);
}

}  // namespace spotter::command
