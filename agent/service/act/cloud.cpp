#include "agent/service/act/cloud.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "agent/aws/formats/s3.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/job/prepare.hpp"
#include "agent/job/storage_name.hpp"

namespace spotter::act {
namespace {

using decide::EffectFailed;
using decide::Failure;

constexpr std::array kConflicts = {"VolumeInUse",
                                   "IncorrectState",
                                   "IncorrectInstanceState",
                                   "InvalidVolume.ZoneMismatch",
                                   "IdempotentParameterMismatch",
                                   "InvalidSnapshot.InUse"};

// Limits of the account or of the zone: they end by themselves, or a person raises them.
constexpr std::array kPassing = {
    "ConcurrentSnapshotLimitExceeded", "SnapshotCreationPerVolumeRateExceeded",
    "InsufficientVolumeCapacity",      "VolumeLimitExceeded",
    "SnapshotLimitExceeded",           "MaxIOPSLimitExceeded",
    "PendingSnapshotLimitExceeded",    "AttachmentLimitExceeded"};

template <std::size_t N>
bool contains(const std::array<const char*, N>& codes, const std::string& code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

Failure classify(const CallError& error) {
  switch (error.kind) {
    case CallError::Kind::NotFound:
      return Failure::Missing;
    case CallError::Kind::Permission:
    case CallError::Kind::DryRun:
      return Failure::Refused;
    case CallError::Kind::Other:
      if (contains(kConflicts, error.code)) return Failure::Conflict;
      return contains(kPassing, error.code) ? Failure::Unavailable : Failure::Rejected;
    default:
      return Failure::Unavailable;
  }
}

// /dev/sdf .. /dev/sdp is what EC2 recommends for data volumes; a name whose attachment hung is not
// used again. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html
std::string device_name(std::uint32_t attempt) {
  return std::string("/dev/sd") + static_cast<char>('f' + attempt % 11);
}

bool is_ours_or_reserved(const std::string& key) {
  return key.rfind("aws:", 0) == 0 || key.rfind(tag::prefix, 0) == 0;
}

}  // namespace

EffectFailed as_failure(const CallError& error) {
  EffectFailed failed{classify(error), error.unsettled(), {}};
  std::string words = error.action.empty() ? "" : error.action + ": ";
  if (!error.code.empty()) words += error.code + ": ";
  failed.detail = decide::Detail(words + error.message);
  return failed;
}

Cloud::Answer Cloud::set_tags(std::string resource, wire::Tags tags, Duration limit) {
  auto call = aws_.call(wire::CreateTags{{std::move(resource)}, std::move(tags)}, limit);
  const auto result = co_await std::move(call);
  co_return accepted(result);
}

Cloud::Answer Cloud::attach(decide::AttachVolume effect, Duration limit) {
  wire::AttachVolume request{effect.volume, effect.instance, device_name(effect.attempt)};
  auto call = aws_.call(std::move(request), limit);
  const auto result = co_await std::move(call);
  if (!result && result.error().message.find("already in use") != std::string::npos) {
    EffectFailed taken = as_failure(result.error());
    taken.failure = Failure::Conflict;  // the device name, or the volume: look again
    co_return taken;
  }
  co_return accepted(result);
}

Cloud::Answer Cloud::detach(decide::DetachVolume effect, Duration limit) {
  auto call = aws_.call(wire::DetachVolume{effect.volume, effect.instance}, limit);
  const auto result = co_await std::move(call);
  co_return accepted(result);
}

wire::Tags Cloud::tags_of_claim(std::uint32_t generation) const {
  wire::Tags tags{{tag::job, job_.volumes_owner()},
                  {tag::role, "state"},
                  {tag::generation, std::to_string(generation)}};
  add_fence(tags);
  return tags;
}

Cloud::Answer Cloud::claim(decide::ClaimVolume effect, Duration limit) {
  return set_tags(effect.volume.str(), tags_of_claim(effect.generation), limit);
}

Cloud::Answer Cloud::mark_verified(VolumeId volume, Duration limit) {
  return set_tags(volume.str(), {{tag::role, "verified"}}, limit);
}

Cloud::Answer Cloud::promote(decide::PromoteVolume effect, Duration limit) {
  const config::Tag& found_by = job_.storage.ebs.tag;
  wire::Tags tags{{tag::role, "state"}};
  if (effect.generation != 0) tags = tags_of_claim(effect.generation);
  tags[found_by.key] = found_by.value;
  return set_tags(effect.volume.str(), std::move(tags), limit);
}

Cloud::Answer Cloud::mark_done(VolumeId volume, Duration limit) {
  return set_tags(volume.str(), {{tag::done, "true"}}, limit);
}

Cloud::Answer Cloud::mark_prepared(VolumeId volume, Duration limit) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string mark =
      config::digest_of(job_.prepare) + " " + std::to_string(now.time_since_epoch().count());
  return set_tags(volume.str(), {{tag::prepared, mark}}, limit);
}

// Who reads it and has no such fence must not use the volume.
void Cloud::add_fence(wire::Tags& to) const {
  if (const auto place = job_.fenced_at()) to[tag::fence] = wire::to_url(*place);
}

// From its creation on, so that it is never seen without tags.
void Cloud::add_line(const VolumeId& lineage, std::uint32_t moves, wire::Tags& to) const {
  if (lineage) to[tag::lineage] = lineage.str();
  to[tag::moves] = std::to_string(moves);
  to[tag::storage] = config::storage_name(job_);
}

Cloud::Answer Cloud::create_snapshot(decide::CreateSnapshot effect, Duration limit) {
  wire::CreateSnapshot request;
  request.volume = effect.volume;
  request.description = "Spotter: " + job_.volumes_owner() + ", for its move to another zone";
  request.tags = {{tag::job, job_.volumes_owner()},
                  {tag::role, "snapshot"},
                  {tag::parent, effect.volume.str()},
                  {tag::generation, std::to_string(effect.generation)}};
  add_line(effect.lineage, effect.moves, request.tags);
  if (effect.taken == decide::Taken::InUse) request.tags[tag::ahead] = tag::ahead_in_use;
  if (effect.taken == decide::Taken::Released) request.tags[tag::ahead] = tag::ahead_released;
  auto call = aws_.call(std::move(request), limit);
  const auto result = co_await std::move(call);
  if (!result) co_return as_failure(result.error());
  co_return decide::SnapshotStarted{result->id};
}

// Has the properties of its parent, except zone and content. Without a parent (recovery from a
// snapshot) it has EC2's defaults.
Cloud::Answer Cloud::create_volume(decide::CreateVolume effect, Duration whole) {
  const Duration limit = whole / 2;  // two calls
  wire::CreateVolume request;
  request.zone = effect.zone;
  request.from = effect.snapshot;
  wire::DescribeVolumes lookup;
  lookup.filters = {{"volume-id", {effect.parent.str()}}};
  auto look = aws_.call_all(std::move(lookup), limit);
  const auto parents = co_await std::move(look);
  if (!parents) co_return as_failure(parents.error());
  for (const wire::Volume& parent : parents->items) {
    request.type = parent.type;
    request.size_gib = parent.size_gib;
    if (parent.type != "gp2") request.iops = parent.iops;  // gp2 derives it from the size
    request.throughput = parent.throughput;
    if (parent.encrypted) request.encrypted = true;
    request.kms_key = parent.kms_key;
    for (const auto& [key, value] : parent.tags) {
      const bool discovery = key == job_.storage.ebs.tag.key;
      if (!discovery && (!is_ours_or_reserved(key) || key == tag::format)) {
        request.tags[key] = value;
      }
    }
  }
  request.tags[tag::job] = job_.volumes_owner();
  request.tags[tag::role] = "candidate";
  request.tags[tag::parent] = effect.parent.str();
  request.tags[tag::generation] = std::to_string(effect.generation);
  add_line(effect.lineage, effect.moves, request.tags);
  add_fence(request.tags);
  request.client_token = "spotter-" + effect.snapshot.str() + "-" + effect.zone.str() + "-" +
                         std::to_string(effect.attempt);
  auto call = aws_.call(std::move(request), limit);
  const auto result = co_await std::move(call);
  if (!result) co_return as_failure(result.error());
  co_return decide::VolumeCreated{result->id};
}

Cloud::Answer Cloud::write_epoch(decide::Epoch epoch, Duration limit) {
  return fence_->write(std::move(epoch), limit);
}

Cloud::Answer Cloud::delete_volume(VolumeId volume, Duration limit) {
  auto call = aws_.call(wire::DeleteVolume{volume}, limit);
  const auto result = co_await std::move(call);
  co_return accepted(result);
}

Cloud::Answer Cloud::delete_snapshot(SnapshotId snapshot, Duration limit) {
  auto call = aws_.call(wire::DeleteSnapshot{snapshot}, limit);
  const auto result = co_await std::move(call);
  co_return accepted(result);
}

}  // namespace spotter::act
