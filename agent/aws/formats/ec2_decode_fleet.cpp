// Answers about fleets, groups and prices.
#include <algorithm>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/ec2_xml.hpp"

namespace spotter::wire {
namespace {

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
