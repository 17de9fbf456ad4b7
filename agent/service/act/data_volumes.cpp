#include "agent/service/act/data_volumes.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "agent/aws/formats/tags.hpp"
#include "agent/io/log.hpp"
#include "agent/wire/events.hpp"

namespace spotter::act {

using decide::DataStep;
using decide::EffectFailed;
using decide::Failure;
using decide::SeenVolume;

struct DataVolumes::Entry {
  const config::DataVolume& data;
  std::size_t index;
  Time until;
  decide::DataVolume search;
  std::optional<Local::MountSeen> there = std::nullopt;
  bool mounted = false;
};

namespace {

bool is_conflict(const EffectFailed& failed, const std::string& message) {
  return failed.failure == Failure::Conflict || message.find("already in use") != message.npos;
}

// The next look shows whether a call without an answer was carried out.
EffectFailed with_words(EffectFailed failed, const std::string& before) {
  failed.unsettled = false;
  failed.detail = decide::Detail(before + ": " + failed.detail.str());
  return failed;
}

}  // namespace

asio::awaitable<Result<std::vector<SeenVolume>, EffectFailed>> DataVolumes::look() {
  wire::DescribeVolumes request;
  request.filters = {wire::tagged(tag::job, job_.volumes_owner()),
                     wire::tagged(tag::role, tag::role_data)};
  const auto volumes = co_await aws_.call_all(std::move(request), policy_.ec2_call);
  if (!volumes) co_return tl::unexpected(as_failure(volumes.error()));
  std::vector<SeenVolume> found;
  for (const wire::Volume& volume : volumes->items)
    if (volume.state != wire::VolumeState::Deleted && !is_foreign(volume, job_))
      found.push_back(seen(volume, job_));
  co_return found;
}

DataVolumes::Answer DataVolumes::prepare(decide::PrepareData effect, Duration limit) {
  const Time until = io::now() + limit;
  std::vector<Entry> entries;
  for (const config::DataVolume& data : job_.storage.data)
    entries.push_back(
        {data, entries.size(), until,
         decide::DataVolume(SnapshotId(data.snapshot), effect.zone, effect.instance)});
  abandoned_ = false;
  for (Entry& entry : entries) {
    entry.there = co_await local_.mounted_at(entry.data.mount, policy_.look);
  }
  for (;;) {
    const auto seen = co_await look();
    if (abandoned_) co_return decide::EffectFailed{.failure = Failure::Abandoned};
    if (!seen) co_return seen.error();
    for (Entry& entry : entries) {
      if (const Failed foreign = take_mounted(entry, *seen, effect.instance)) co_return *foreign;
      if (entry.mounted) continue;
      if (const Failed failed = co_await bring(entry, *seen, effect))
        co_return with_words(*failed, entry.data.snapshot + " for " + entry.data.mount);
    }
    const auto late = std::ranges::find(entries, false, &Entry::mounted);
    if (late == entries.end()) co_return decide::Mounted{};
    if (io::now() >= until)
      co_return EffectFailed{
          .unsettled = true,
          .detail = decide::Detail("the volume of " + late->data.snapshot + " for " +
                                   late->data.mount + " is not there in time")};
    co_await io::wait_for(policy_.poll_attachment);
  }
}

DataVolumes::Failed DataVolumes::take_mounted(Entry& entry, const std::vector<SeenVolume>& seen,
                                              const InstanceId& self) const {
  if (!entry.there || entry.mounted) return std::nullopt;
  const VolumeId& there = entry.there->volume;
  entry.mounted = there.empty() ? entry.there->read_only
                                : std::ranges::any_of(seen, [&](const SeenVolume& volume) {
                                    return volume.id == there && volume.holder == self &&
                                           volume.from.view() == entry.data.snapshot;
                                  });
  if (entry.mounted) return std::nullopt;
  return EffectFailed{Failure::Rejected, false,
                      decide::Detail("something else is mounted on " + entry.data.mount +
                                     ": unmount it, or give the data another place")};
}

// Takes one step. Returns nullopt when it is done, or is to be looked at again.
asio::awaitable<DataVolumes::Failed> DataVolumes::bring(Entry& entry,
                                                        const std::vector<SeenVolume>& seen,
                                                        const decide::PrepareData& effect) {
  const DataStep step = entry.search.next(seen, io::now(), policy_);
  switch (step.kind) {
    case DataStep::Kind::Make:
      return make(entry, step.attempt, effect);
    case DataStep::Kind::Attach:
      return attach(entry, step.volume, step.attempt, effect.instance);
    case DataStep::Kind::Detach:
      return release(step.volume, effect.instance);
    case DataStep::Kind::Use:
      return mount(entry, step.volume, step.attached_as);
    default:
      break;
  }
  Failed failed;
  if (step.kind == DataStep::Kind::Vanished) {
    failed.emplace().failure = Failure::Rejected;
    failed->detail = decide::Detail(step.volume.str() +
                                    " was made, and then was gone: may the instance's role use "
                                    "the snapshot's KMS key?");
  }
  auto said = [](Failed what) -> asio::awaitable<Failed> { co_return what; };
  return said(std::move(failed));
}

asio::awaitable<DataVolumes::Failed> DataVolumes::make(Entry& entry, std::uint32_t attempt,
                                                       const decide::PrepareData& effect) {
  const config::DataVolume& data = entry.data;
  wire::CreateVolume request;
  request.zone = effect.zone;
  request.from = SnapshotId(data.snapshot);
  request.type = data.type;
  request.iops = data.iops;
  request.throughput = data.throughput;
  request.initialization_rate = data.initialization_rate;
  request.tags = {{tag::job, job_.volumes_owner()},
                  {tag::role, tag::role_data},
                  {tag::storage, config::storage_name(job_)}};
  // An instance makes one volume of each snapshot. A token has at most 64 characters.
  request.client_token =
      "data-" + data.snapshot + "-" + effect.instance.str() + "-" + std::to_string(attempt);
  const auto made = co_await aws_.call(std::move(request), policy_.ec2_call);
  if (made) {
    entry.search.made(made->id, io::now());
    io::note(wire::event("data-made"), spdlog::level::info,
             "{} is made of {} in {} for {}: it is deleted when the job is over", made->id.view(),
             data.snapshot, effect.zone.view(), data.mount);
    co_return std::nullopt;
  }
  if (made.error().code != "IdempotentParameterMismatch") co_return as_failure(made.error());
  entry.search.burned();
  co_return std::nullopt;
}

// Refused because another process was first, or because the device's name is in use: the next look
// shows which.
asio::awaitable<DataVolumes::Failed> DataVolumes::attach(Entry& entry, VolumeId volume,
                                                         std::uint32_t attempt, InstanceId self) {
  // From the end of /dev/sd[f-p]: names for the job's own volume are taken from its begin.
  const std::size_t name = (entry.index + attempt) % 10;
  const std::string device = std::string("/dev/sd") + static_cast<char>('p' - name);
  auto call = aws_.call(wire::AttachVolume{volume, self, device}, policy_.ec2_call);
  const auto attached = co_await std::move(call);
  if (attached) co_return std::nullopt;
  EffectFailed failed = as_failure(attached.error());
  const bool gone = failed.failure == Failure::Missing;
  if (!gone && !is_conflict(failed, attached.error().message)) co_return failed;
  entry.search.refused();
  co_return std::nullopt;
}

asio::awaitable<DataVolumes::Failed> DataVolumes::mount(Entry& entry, VolumeId volume,
                                                        ShortText<31> attached_as) {
  auto finding = local_.on(decide::FindDevice{volume, attached_as}, policy_.device);
  const decide::Happening found = co_await std::move(finding);
  const auto* device = std::get_if<decide::DeviceFound>(&found);
  if (!device) {
    const auto& failed = std::get<EffectFailed>(found);
    if (failed.failure != Failure::DeviceAbsent) co_return failed;
    entry.search.absent(volume);
    co_return std::nullopt;
  }
  const decide::Happening mounted = co_await local_.mount_data(
      device->device, entry.data.mount, std::max(entry.until - io::now(), policy_.look));
  if (const auto* failed = std::get_if<EffectFailed>(&mounted)) co_return *failed;
  entry.mounted = true;
  spdlog::info("{} is mounted on {}, read-only", volume.view(), entry.data.mount);
  co_return std::nullopt;
}

// A volume that is gone, or no longer attached, is a success.
asio::awaitable<DataVolumes::Failed> DataVolumes::release(VolumeId volume, InstanceId self) {
  auto call = aws_.call(wire::DetachVolume{volume, self}, policy_.ec2_call);
  const auto result = co_await std::move(call);
  if (result) co_return std::nullopt;
  const EffectFailed failed = as_failure(result.error());
  if (failed.failure == Failure::Missing || failed.failure == Failure::Conflict)
    co_return std::nullopt;
  co_return failed;
}

asio::awaitable<DataVolumes::Failed> DataVolumes::remove(VolumeId volume) {
  auto call = aws_.call(wire::DeleteVolume{volume}, policy_.ec2_call);
  const auto result = co_await std::move(call);
  if (result) {
    spdlog::info("{} is deleted: it can be made again of its snapshot", volume.view());
    co_return std::nullopt;
  }
  const EffectFailed failed = as_failure(result.error());
  if (failed.failure == Failure::Missing || failed.failure == Failure::Conflict)
    co_return std::nullopt;
  co_return failed;
}

bool DataVolumes::is_named(const SnapshotId& snapshot) const {
  return std::ranges::any_of(job_.storage.data, [&](const config::DataVolume& data) {
    return snapshot.view() == data.snapshot;
  });
}

// A mount of another user stays.
DataVolumes::Answer DataVolumes::unmount(Duration limit) {
  const auto seen = co_await look();
  for (const config::DataVolume& data : job_.storage.data) {
    const auto there = co_await local_.mounted_at(data.mount, policy_.look);
    if (!there) continue;
    const bool known = seen && !there->volume.empty();
    const bool ours = known
                          ? std::ranges::find(*seen, there->volume, &SeenVolume::id) != seen->end()
                          : there->read_only;
    if (!ours) continue;
    const decide::Happening unmounted = co_await local_.unmount_data(data.mount, limit);
    if (std::holds_alternative<EffectFailed>(unmounted)) co_return unmounted;
  }
  co_return decide::Unmounted{};
}

DataVolumes::Answer DataVolumes::release(decide::ReleaseData effect, Duration limit) {
  const Time until = io::now() + limit;
  const decide::Happening unmounted = co_await unmount(limit / 2);
  if (std::holds_alternative<EffectFailed>(unmounted)) co_return unmounted;
  for (;;) {
    const auto seen = co_await look();
    if (!seen) co_return seen.error();
    bool held = false;
    for (const SeenVolume& volume : *seen) {
      Failed failed;
      // Made of another snapshot: job.yaml has changed, and its mount point may be any.
      const bool ours = volume.holder == effect.instance && is_named(volume.from);
      held = held || ours;
      if (ours && volume.attachment != decide::AttachmentState::Detaching) {
        failed = co_await release(volume.id, effect.instance);
      } else if (effect.remove && is_free(volume)) {
        failed = co_await remove(volume.id);
      }
      if (failed) co_return *failed;
    }
    if (!held || !effect.remove) co_return decide::Unmounted{};
    if (io::now() >= until) break;
    co_await io::wait_for(policy_.poll_attachment);
  }
  co_return EffectFailed{.unsettled = true, .detail = "a volume of data is not detached in time"};
}

}  // namespace spotter::act
