// The members that Auto Scaling's operations honour.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference; botocore's service model.
#include "tests/world/auto_scaling.hpp"

namespace spotter::world {
namespace {

namespace group_part {

const std::string named_template = "{LaunchTemplateId LaunchTemplateName Version} ";
const std::string shape =
    "AutoScalingGroupName AvailabilityZones CapacityRebalance DefaultCooldown=300 DesiredCapacity "
    "DesiredCapacityType=units HealthCheckGracePeriod=0 HealthCheckType=EC2 MaxSize MinSize "
    "NewInstancesProtectedFromScaleIn=false VPCZoneIdentifier LaunchTemplate" +
    named_template +
    "MixedInstancesPolicy{InstancesDistribution{OnDemandAllocationStrategy OnDemandBaseCapacity "
    "OnDemandPercentageAboveBaseCapacity SpotAllocationStrategy SpotMaxPrice} "
    "LaunchTemplate{Overrides{InstanceType WeightedCapacity} LaunchTemplateSpecification" +
    named_template + "}} ";
const std::string tags = "Tags{Key PropagateAtLaunch ResourceId ResourceType Value} ";
const std::string hook = "DefaultResult HeartbeatTimeout LifecycleHookName LifecycleTransition";
const std::string pages = " MaxRecords NextToken";

}  // namespace group_part

const MemberTable group_table = {
    {"CreateAutoScalingGroup", group_part::shape + group_part::tags +
                                   "LifecycleHookSpecificationList{" + group_part::hook + "}"},
    {"UpdateAutoScalingGroup", group_part::shape},
    {"SetDesiredCapacity", "AutoScalingGroupName DesiredCapacity HonorCooldown=false"},
    {"TerminateInstanceInAutoScalingGroup", "InstanceId ShouldDecrementDesiredCapacity"},
    {"CompleteLifecycleAction",
     "AutoScalingGroupName InstanceId LifecycleActionResult LifecycleHookName"},
    {"PutLifecycleHook", "AutoScalingGroupName " + group_part::hook},
    {"SuspendProcesses", "AutoScalingGroupName ScalingProcesses"},
    {"ResumeProcesses", "AutoScalingGroupName ScalingProcesses"},
    {"CreateOrUpdateTags", group_part::tags},
    {"DescribeAutoScalingGroups",
     "AutoScalingGroupNames Filters{Name Values} IncludeInstances" + group_part::pages},
    {"DescribeAutoScalingInstances", "InstanceIds" + group_part::pages},
    {"DescribeLifecycleHooks", "AutoScalingGroupName LifecycleHookNames"},
    {"DescribeScalingActivities",
     "AutoScalingGroupName IncludeDeletedGroups=false" + group_part::pages},
};

}  // namespace

const MemberTable& auto_scaling_members() { return group_table; }

}  // namespace spotter::world
