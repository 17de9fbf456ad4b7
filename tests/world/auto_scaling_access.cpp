#include <algorithm>

#include "tests/world/auto_scaling.hpp"
#include "tests/world/ec2_access.hpp"

namespace spotter::world {
namespace {

// Whom the call is about: a group by its name, or the one that the instance is in.
std::vector<std::string> groups_of(const Cloud& cloud, const Query& query) {
  if (query.has("AutoScalingGroupName")) return {query.text("AutoScalingGroupName")};
  std::set<std::string> names;
  for (const std::string& it : query.members("Tags.member"))
    names.insert(query.text(it + "ResourceId"));
  const Instance* instance = cloud.instances.find(InstanceId(query.text("InstanceId")));
  if (instance) names.insert(instance->fleet.id.str());
  return {names.begin(), names.end()};
}

// Giving a group a launch template takes permission to run instances by it, in the group's subnets.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html
std::vector<AccessRequest> access_to_launch(const Cloud& cloud, const Call& call) {
  const Query query(call.parameters);
  const std::string mixed = "MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.";
  Call launch{"RunInstances", {}, call.caller};
  bool named = false;
  for (const std::string& prefix : {std::string("LaunchTemplate."), mixed})
    for (const char* part : {"LaunchTemplateId", "LaunchTemplateName", "Version"}) {
      if (!query.has(prefix + part)) continue;
      launch.parameters[std::string("LaunchTemplate.") + part] = query.text(prefix + part);
      named = true;
    }
  if (!named) return {};
  std::vector<AccessRequest> needed;
  std::string subnets = query.text("VPCZoneIdentifier");
  do {
    const std::string subnet = subnets.substr(0, subnets.find(','));
    subnets.erase(0, subnets.find(',') == subnets.npos ? subnets.size() : subnet.size() + 1);
    if (!subnet.empty()) launch.parameters["SubnetId"] = subnet;
    std::ranges::move(needed_access(cloud, launch), std::back_inserter(needed));
  } while (!subnets.empty());
  return needed;
}

}  // namespace

std::vector<AccessRequest> auto_scaling_access(const Cloud& cloud, const Call& call) {
  const Query query(call.parameters);
  const std::string action = "autoscaling:" + call.action;
  const std::string region = cloud.settings.region.str();
  std::vector<AccessRequest> needed;
  const auto add = [&](const std::string& resource) -> AccessRequest& {
    AccessRequest& it = needed.emplace_back(AccessRequest{action, resource});
    it.know("aws:RequestedRegion", region);
    for (const std::string& tag : query.members("Tags.member")) {
      it.know("aws:RequestTag/" + query.text(tag + "Key"), query.text(tag + "Value"));
      it.know("aws:TagKeys", query.text(tag + "Key"));
    }
    return it;
  };
  if (call.action.starts_with("Describe")) {
    add("*");
    return needed;
  }
  for (const std::string& name : groups_of(cloud, query)) {
    AccessRequest& it = add("arn:aws:autoscaling:" + region + ":" + cloud.settings.account +
                            ":autoScalingGroup:u:autoScalingGroupName/" + name);
    const FleetRequest* group = cloud.fleets.find(FleetId(name));
    if (group == nullptr) continue;
    for (const auto& [key, value] : group->tags) {
      it.know("autoscaling:ResourceTag/" + key, value);
      it.know("aws:ResourceTag/" + key, value);
    }
  }
  std::ranges::move(access_to_launch(cloud, call), std::back_inserter(needed));
  return needed;
}

}  // namespace spotter::world
