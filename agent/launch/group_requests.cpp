// Auto Scaling groups.
#include "agent/aws/formats/tags.hpp"
#include "agent/launch/request_parts.hpp"

namespace spotter::launch {
namespace {

using wire::AwsCommand;
using wire::Repeatable;

// The agent needs two minutes at most, and learns that it has to leave some seconds late. If it is
// dead, the instance costs money for that long.
constexpr int hook_seconds = 180;

// The settings of a group that can also be changed later.
OrderedJson group_shape(const config::Job& job, const TemplateVersion& it) {
  const config::Launch& launch = *job.launch;
  OrderedJson types = OrderedJson::array();
  for (const std::string& type : launch.instance_types) types.push_back({{"InstanceType", type}});
  const OrderedJson shares = {
      {"OnDemandBaseCapacity", 0},
      {"OnDemandPercentageAboveBaseCapacity", is_always_on_demand(launch) ? 100 : 0},
      {"SpotAllocationStrategy", hyphenated(launch.allocation)},
      {"SpotMaxPrice", launch.max_price}};  // empty: removes an earlier one
  OrderedJson shape = {{"AutoScalingGroupName", resource_name(job)},
                       {"MixedInstancesPolicy",
                        {{"LaunchTemplate",
                          {{"LaunchTemplateSpecification", template_of(it)}, {"Overrides", types}}},
                         {"InstancesDistribution", shares}}},
                       {"MinSize", 0},
                       {"MaxSize", launch.capacity},
                       {"DesiredCapacity", launch.capacity}};
  std::string subnets;
  for (const std::string& subnet : launch.subnets) subnets += (subnets.empty() ? "" : ",") + subnet;
  if (subnets.empty())
    shape["AvailabilityZones"] = launch.zones;
  else
    shape["VPCZoneIdentifier"] = subnets;
  return shape;
}

OrderedJson group_tags(const config::Job& job, const wire::Tags& tags) {
  OrderedJson list = OrderedJson::array();
  for (const auto& [key, value] : tags)
    list.push_back({{"ResourceId", resource_name(job)},
                    {"ResourceType", "auto-scaling-group"},
                    {"Key", key},
                    {"Value", value},
                    {"PropagateAtLaunch", key != tag::request}});
  return list;
}

}  // namespace

AwsCommand create_group(const config::Job& job, const TemplateVersion& it, const wire::Tags& tags) {
  OrderedJson input = group_shape(job, it);
  if (job.launch->max_price.empty())
    input["MixedInstancesPolicy"]["InstancesDistribution"].erase("SpotMaxPrice");
  input["LifecycleHookSpecificationList"] =
      OrderedJson::array({{{"LifecycleHookName", wire::checkpoint_hook},
                           {"LifecycleTransition", "autoscaling:EC2_INSTANCE_TERMINATING"},
                           {"HeartbeatTimeout", hook_seconds},
                           {"DefaultResult", "CONTINUE"}}});
  input["Tags"] = group_tags(job, tags);
  return command("autoscaling", "CreateAutoScalingGroup", input, Repeatable::No);
}

AwsCommand update_group(const config::Job& job, const TemplateVersion& launch_template) {
  return command("autoscaling", "UpdateAutoScalingGroup", group_shape(job, launch_template),
                 Repeatable::Read);
}

AwsCommand tag_group(const config::Job& job, const std::string& digest) {
  return command("autoscaling", "CreateOrUpdateTags",
                 {{"Tags", group_tags(job, fleet_tags(job, digest))}}, Repeatable::Read);
}

AwsCommand keep_zones(const FleetId& group) {
  return command("autoscaling", "SuspendProcesses",
                 {{"AutoScalingGroupName", group.str()},
                  {"ScalingProcesses", OrderedJson::array({"AZRebalance"})}},
                 Repeatable::Read);
}

AwsCommand let_launch(const FleetId& group, bool launches) {
  const OrderedJson input = {{"AutoScalingGroupName", group.str()},
                             {"ScalingProcesses", OrderedJson::array({"Launch"})}};
  if (launches) return command("autoscaling", "ResumeProcesses", input, Repeatable::Read);
  return command("autoscaling", "SuspendProcesses", input, Repeatable::Read);
}

Capacity capacity_of(const config::Launch& launch) {
  return {launch.capacity, is_always_on_demand(launch) ? launch.capacity : 0};
}

AwsCommand mark_group(const FleetId& group, const std::string& job, const std::string& mark) {
  const auto tag = [&](const char* key, const std::string& value, bool propagates) {
    return OrderedJson{{"ResourceId", group.str()},
                       {"ResourceType", "auto-scaling-group"},
                       {"Key", key},
                       {"Value", value},
                       {"PropagateAtLaunch", propagates}};
  };
  // The launcher may tag a group only as that of its job.
  return command(
      "autoscaling", "CreateOrUpdateTags",
      {{"Tags", OrderedJson::array({tag(tag::job, job, true), tag(tag::watched, mark, false)})}},
      Repeatable::Read);
}

}  // namespace spotter::launch
