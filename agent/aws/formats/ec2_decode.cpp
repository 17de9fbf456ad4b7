// Answers about volumes, snapshots, instances and tags.
#include <algorithm>
#include <array>
#include <utility>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/ec2_xml.hpp"

namespace spotter::wire {
namespace {

template <class State, std::size_t count>
State state_of(const std::array<std::pair<const char*, State>, count>& words,
               const std::string& text) {
  for (const auto& [word, state] : words) {
    if (text == word) return state;
  }
  return State::Unknown;
}

VolumeState volume_state(const std::string& text) {
  using enum VolumeState;
  static constexpr std::array<std::pair<const char*, VolumeState>, 6> words{
      {{"creating", Creating},
       {"available", Available},
       {"in-use", InUse},
       {"deleting", Deleting},
       {"deleted", Deleted},
       {"error", Error}}};
  return state_of(words, text);
}

AttachmentState attachment_state(const std::string& text) {
  using enum AttachmentState;
  static constexpr std::array<std::pair<const char*, AttachmentState>, 5> words{
      {{"attaching", Attaching},
       {"attached", Attached},
       {"detaching", Detaching},
       {"detached", Detached},
       {"busy", Busy}}};
  return state_of(words, text);
}

SnapshotState snapshot_state(const std::string& text) {
  using enum SnapshotState;
  static constexpr std::array<std::pair<const char*, SnapshotState>, 5> words{
      {{"pending", Pending},
       {"completed", Completed},
       {"error", Error},
       {"recoverable", Recoverable},
       {"recovering", Recovering}}};
  return state_of(words, text);
}

InstanceState instance_state(const std::string& text) {
  using enum InstanceState;
  static constexpr std::array<std::pair<const char*, InstanceState>, 6> words{
      {{"pending", Pending},
       {"running", Running},
       {"shutting-down", ShuttingDown},
       {"terminated", Terminated},
       {"stopping", Stopping},
       {"stopped", Stopped}}};
  return state_of(words, text);
}

Attachment read_attachment(const Fields& fields) {
  return {.volume = fields.name<VolumeId>("volumeId"),
          .instance = fields.optional_name<InstanceId>("instanceId"),
          .device = fields.optional_text("device"),
          .state = attachment_state(fields.text("status")),
          .delete_on_termination = fields.flag("deleteOnTermination")};
}

Volume read_volume(const Fields& fields) {
  Volume volume{.id = fields.name<VolumeId>("volumeId"),
                .zone = fields.name<Zone>("availabilityZone"),
                .state = volume_state(fields.text("status")),
                .type = fields.text("volumeType"),
                .size_gib = fields.number("size"),
                .iops = fields.optional_number("iops"),
                .throughput = fields.optional_number("throughput"),
                .encrypted = fields.flag("encrypted"),
                .kms_key = fields.optional_text("kmsKeyId"),
                .from_snapshot = fields.optional_name<SnapshotId>("snapshotId"),
                .attachments = {},
                .tags = fields.tags(),
                .create_time = fields.time("createTime")};
  for (const Fields& item : fields.optional_items("attachmentSet")) {
    volume.attachments.push_back(read_attachment(item));
  }
  return volume;
}

// "80%", "80", or empty at the very start.
int per_cent(std::string text) {
  if (text.ends_with('%')) text.pop_back();
  int value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || value > 100) return 0;
    value = value * 10 + (digit - '0');
  }
  return value > 100 ? 100 : value;
}

Snapshot read_snapshot(const Fields& fields) {
  return {.id = fields.name<SnapshotId>("snapshotId"),
          .volume = fields.name<VolumeId>("volumeId"),
          .state = snapshot_state(fields.text("status")),
          .progress = per_cent(fields.optional_text("progress")),
          .size_gib = fields.number("volumeSize"),
          .start_time = fields.time("startTime"),
          .description = fields.optional_text("description"),
          .tags = fields.tags()};
}

Instance read_instance(const Fields& fields) {
  return {.id = fields.name<InstanceId>("instanceId"),
          .state = instance_state(fields.child("instanceState").text("name")),
          .zone = fields.child("placement").name<Zone>("availabilityZone"),
          .type = fields.name<InstanceType>("instanceType"),
          .lifecycle = fields.optional_text("instanceLifecycle"),
          .launch_time = fields.optional_time("launchTime"),
          .image = fields.optional_text("imageId"),
          .tags = fields.tags()};
}

ResourceTag read_resource_tag(const Fields& fields) {
  return {.resource = fields.text("resourceId"),
          .resource_type = fields.text("resourceType"),
          .key = fields.text("key"),
          .value = fields.optional_text("value")};
}

}  // namespace

template <>
Result<Page<Volume>> decode<DescribeVolumes>(std::string_view xml) {
  return read_answer(xml, "DescribeVolumes", [](const Fields& fields) {
    return read_page(fields, "volumeSet", read_volume);
  });
}

template <>
Result<Volume> decode<CreateVolume>(std::string_view xml) {
  return read_answer(xml, "CreateVolume", read_volume);
}

template <>
Result<Attachment> decode<AttachVolume>(std::string_view xml) {
  return read_answer(xml, "AttachVolume", read_attachment);
}

template <>
Result<Attachment> decode<DetachVolume>(std::string_view xml) {
  return read_answer(xml, "DetachVolume", read_attachment);
}

template <>
Result<Done> decode<DeleteVolume>(std::string_view xml) {
  return read_answer(xml, "DeleteVolume", read_yes);
}

template <>
Result<Snapshot> decode<CreateSnapshot>(std::string_view xml) {
  return read_answer(xml, "CreateSnapshot", read_snapshot);
}

template <>
Result<Page<Snapshot>> decode<DescribeSnapshots>(std::string_view xml) {
  return read_answer(xml, "DescribeSnapshots", [](const Fields& fields) {
    return read_page(fields, "snapshotSet", read_snapshot);
  });
}

template <>
Result<Done> decode<DeleteSnapshot>(std::string_view xml) {
  return read_answer(xml, "DeleteSnapshot", read_yes);
}

template <>
Result<Done> decode<CreateTags>(std::string_view xml) {
  return read_answer(xml, "CreateTags", read_yes);
}

template <>
Result<Done> decode<DeleteTags>(std::string_view xml) {
  return read_answer(xml, "DeleteTags", read_yes);
}

template <>
Result<Page<Instance>> decode<DescribeInstances>(std::string_view xml) {
  return read_answer(xml, "DescribeInstances", [](const Fields& fields) {
    Page<Instance> page;
    for (const Fields& reservation : fields.items("reservationSet")) {
      for (const Fields& item : reservation.items("instancesSet")) {
        page.items.push_back(read_instance(item));
      }
    }
    page.next_token = fields.optional_text("nextToken");
    return page;
  });
}

template <>
Result<Page<ResourceTag>> decode<DescribeTags>(std::string_view xml) {
  return read_answer(xml, "DescribeTags", [](const Fields& fields) {
    return read_page(fields, "tagSet", read_resource_tag);
  });
}

template <>
Result<std::vector<InstanceChange>> decode<TerminateInstances>(std::string_view xml) {
  return read_answer(xml, "TerminateInstances", [](const Fields& fields) {
    std::vector<InstanceChange> changes;
    for (const Fields& item : fields.items("instancesSet")) {
      changes.push_back({.id = item.name<InstanceId>("instanceId"),
                         .previous = instance_state(item.child("previousState").text("name")),
                         .current = instance_state(item.child("currentState").text("name"))});
    }
    return changes;
  });
}

namespace {

// Answers about fleets, groups and prices.

// The API pages write both cancelled_running and deleted-running.
FleetState fleet_state(std::string text) {
  std::ranges::replace(text, '-', '_');
  if (text == "submitted") return FleetState::Submitted;
  if (text == "active") return FleetState::Active;
  if (text == "modifying") return FleetState::Modifying;
  if (text == "failed") return FleetState::Failed;
  if (text == "cancelled" || text == "deleted") return FleetState::Cancelled;
  if (text == "cancelled_running" || text == "deleted_running") {
    return FleetState::CancelledRunning;
  }
  if (text == "cancelled_terminating" || text == "deleted_terminating") {
    return FleetState::CancelledTerminating;
  }
  return FleetState::Unknown;
}

// The same answer under two sets of names.
struct CancellationNames {
  const char* successes;
  const char* failures;
  const char* id;
  const char* state;
};

FleetCancellation read_cancellation(const Fields& fields, const CancellationNames& names) {
  FleetCancellation answer;
  for (const Fields& item : fields.optional_items(names.successes)) {
    answer.cancelled.push_back(
        {.id = item.name<FleetId>(names.id), .current = fleet_state(item.text(names.state))});
  }
  for (const Fields& item : fields.optional_items(names.failures)) {
    const Fields error = item.child("error");
    answer.failed.push_back({.id = item.name<FleetId>(names.id),
                             .code = error.text("code"),
                             .message = error.optional_text("message")});
  }
  if (answer.cancelled.empty() && answer.failed.empty()) {
    fields.note(names.successes, "names no fleet, nor does the list of failures");
  }
  return answer;
}

int capacity(const Fields& fields, const char* name) {
  return static_cast<int>(std::min<std::uint64_t>(fields.number(name), 1'000'000));
}

int optional_capacity(const Fields& fields, const char* name) {
  return static_cast<int>(std::clamp(fields.optional_decimal(name), 0.0, 1'000'000.0));
}

TemplateInUse read_template(const Fields& request) {
  for (const Fields& config : request.optional_items("launchTemplateConfigs")) {
    const Fields it = config.optional_child("launchTemplateSpecification");
    return {it.optional_text("launchTemplateId"), it.optional_text("version")};
  }
  return {};
}

TemplateInUse read_template_of_group(const Fields& group) {
  const Fields it = group.optional_child("MixedInstancesPolicy")
                        .optional_child("LaunchTemplate")
                        .optional_child("LaunchTemplateSpecification");
  return {it.optional_text("LaunchTemplateId"), it.optional_text("Version")};
}

FleetStatus read_spot_fleet(const Fields& fields) {
  const Fields configuration = fields.child("spotFleetRequestConfig");
  return {.id = fields.name<FleetId>("spotFleetRequestId"),
          .state = fleet_state(fields.text("spotFleetRequestState")),
          .target_capacity = capacity(configuration, "targetCapacity"),
          .on_demand = optional_capacity(configuration, "onDemandTargetCapacity"),
          .fulfilled_capacity = configuration.optional_decimal("fulfilledCapacity"),
          .type = configuration.optional_text("type"),
          .create_time = fields.optional_time("createTime"),
          .launch_template = read_template(configuration),
          .tags = fields.tags()};
}

FleetStatus read_fleet(const Fields& fields) {
  const Fields target = fields.child("targetCapacitySpecification");
  return {.id = fields.name<FleetId>("fleetId"),
          .state = fleet_state(fields.text("fleetState")),
          .target_capacity = capacity(target, "totalTargetCapacity"),
          .on_demand = optional_capacity(target, "onDemandTargetCapacity"),
          .fulfilled_capacity = fields.optional_decimal("fulfilledCapacity"),
          .type = fields.optional_text("type"),
          .create_time = fields.optional_time("createTime"),
          .launch_template = read_template(fields),
          .tags = fields.tags()};
}

// Its desired capacity, and what still runs, are all that a group's state is.
FleetState group_state(const Fields& fields, int desired) {
  const auto processes = fields.members("SuspendedProcesses");
  const bool launches = std::ranges::none_of(
      processes, [](const Fields& it) { return it.text("ProcessName") == "Launch"; });
  if (fields.optional_text("Status").starts_with("Delete")) return FleetState::CancelledTerminating;
  if (desired > 0) return launches ? FleetState::Active : FleetState::CancelledRunning;
  const bool empty = fields.members("Instances").empty();
  return empty ? FleetState::Cancelled : FleetState::CancelledTerminating;
}

FleetStatus read_group(const Fields& fields) {
  const int desired = capacity(fields, "DesiredCapacity");
  FleetStatus group{.id = fields.name<FleetId>("AutoScalingGroupName"),
                    .state = group_state(fields, desired),
                    .target_capacity = desired,
                    .fulfilled_capacity = 0,
                    .type = "maintain",
                    .create_time = fields.optional_time("CreatedTime"),
                    .launch_template = read_template_of_group(fields),
                    .tags = {}};
  for (const Fields& tag : fields.members("Tags"))
    group.tags[tag.text("Key")] = tag.optional_text("Value");
  return group;
}

SpotPrice read_price(const Fields& fields) {
  return {.zone = fields.name<Zone>("availabilityZone"),
          .type = fields.name<InstanceType>("instanceType"),
          .product = fields.text("productDescription"),
          .dollars_per_hour = fields.decimal("spotPrice"),
          .since = fields.time("timestamp")};
}

Done read_nothing(const Fields&) { return {}; }

}  // namespace

template <>
Result<FleetCancellation> decode<CancelSpotFleetRequests>(std::string_view xml) {
  return read_answer(xml, "CancelSpotFleetRequests", [](const Fields& fields) {
    return read_cancellation(fields, {"successfulFleetRequestSet", "unsuccessfulFleetRequestSet",
                                      "spotFleetRequestId", "currentSpotFleetRequestState"});
  });
}

template <>
Result<FleetCancellation> decode<DeleteFleets>(std::string_view xml) {
  return read_answer(xml, "DeleteFleets", [](const Fields& fields) {
    return read_cancellation(fields, {"successfulFleetDeletionSet", "unsuccessfulFleetDeletionSet",
                                      "fleetId", "currentFleetState"});
  });
}

template <>
Result<Done> decode<ModifySpotFleetRequest>(std::string_view xml) {
  return read_answer(xml, "ModifySpotFleetRequest", read_yes);
}

template <>
Result<Done> decode<ModifyFleet>(std::string_view xml) {
  return read_answer(xml, "ModifyFleet", read_yes);
}

template <>
Result<Page<FleetStatus>> decode<DescribeSpotFleetRequests>(std::string_view xml) {
  return read_answer(xml, "DescribeSpotFleetRequests", [](const Fields& fields) {
    return read_page(fields, "spotFleetRequestConfigSet", read_spot_fleet);
  });
}

template <>
Result<Page<FleetStatus>> decode<DescribeFleets>(std::string_view xml) {
  return read_answer(xml, "DescribeFleets", [](const Fields& fields) {
    return read_page(fields, "fleetSet", read_fleet);
  });
}

template <>
Result<Page<SpotPrice>> decode<DescribeSpotPriceHistory>(std::string_view xml) {
  return read_answer(xml, "DescribeSpotPriceHistory", [](const Fields& fields) {
    return read_page(fields, "spotPriceHistorySet", read_price);
  });
}

template <>
Result<Page<FleetStatus>> decode<DescribeAutoScalingGroups>(std::string_view xml) {
  return read_answer(xml, "DescribeAutoScalingGroups", [](const Fields& fields) {
    const Fields result = fields.child("DescribeAutoScalingGroupsResult");
    Page<FleetStatus> page;
    for (const Fields& item : result.members("AutoScalingGroups"))
      page.items.push_back(read_group(item));
    page.next_token = result.optional_text("NextToken");
    return page;
  });
}

template <>
Result<Done> decode<SetDesiredCapacity>(std::string_view xml) {
  return read_answer(xml, "SetDesiredCapacity", read_nothing);
}

template <>
Result<Done> decode<TerminateInGroup>(std::string_view xml) {
  return read_answer(xml, "TerminateInstanceInAutoScalingGroup", read_nothing);
}

template <>
Result<Done> decode<CompleteLifecycleAction>(std::string_view xml) {
  return read_answer(xml, "CompleteLifecycleAction", read_nothing);
}

}  // namespace spotter::wire
