#include "tests/world/groups.hpp"
#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

constexpr const char* name_key = "AutoScalingGroupName";

struct Group : Api {
  explicit Group(Parameters more = {}) {
    raw("CreateLaunchTemplate", {{"LaunchTemplateName", "trainer"},
                                 {"LaunchTemplateData.ImageId", "ami-1a2b3c4d"},
                                 {"LaunchTemplateData.UserData", "ZWNobyBoaQ=="}});
    const std::string mixed = "MixedInstancesPolicy.";
    more.emplace(name_key, "group");
    more.emplace("MinSize", "0");
    more.emplace("MaxSize", "2");
    more.emplace("DesiredCapacity", "1");
    more[mixed + "LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateName"] = "trainer";
    more[mixed + "LaunchTemplate.Overrides.member.1.InstanceType"] = "g5.xlarge";
    more[mixed + "InstancesDistribution.OnDemandPercentageAboveBaseCapacity"] = "0";
    more["AvailabilityZones.member.1"] = "us-west-2a";
    more["AvailabilityZones.member.2"] = "us-west-2b";
    more["Tags.member.1.Key"] = "spotter:job";
    more["Tags.member.1.Value"] = "mnist";
    more["Tags.member.1.PropagateAtLaunch"] = "true";
    EXPECT_EQ(group("CreateAutoScalingGroup", more).status, 200) << document_text;
    wait(20_s);
  }

  Reply group(const std::string& action, const Parameters& parameters = {}) {
    Reply reply = world.auto_scaling({.action = action, .parameters = parameters}, now);
    document_text = reply.body;
    document.load_string(reply.body.c_str());
    return reply;
  }
  std::string read(const std::string& path) {
    return document.select_node(("//" + path).c_str()).node().text().get();
  }
  std::string refused(const std::string& action, const Parameters& parameters) {
    group(action, parameters);
    return read("Error/Code");
  }
  std::string lifecycle(const InstanceId& id) {
    group("DescribeAutoScalingInstances", {{"InstanceIds.member.1", id.str()}});
    return read("LifecycleState");
  }
  std::string target_state(const InstanceId& id) {
    MetadataRequest token{"PUT", "/latest/api/token", {}};
    token.headers["x-aws-ec2-metadata-token-ttl-seconds"] = "60";
    MetadataRequest asked{"GET", "/latest/meta-data/autoscaling/target-lifecycle-state", {}};
    asked.headers["x-aws-ec2-metadata-token"] = world.metadata(id, token, now).body;
    return world.metadata(id, asked, now).body;
  }
  const Instance& of(const InstanceId& id) { return *world.cloud().instances.find(id); }

  std::string document_text;
};

Api::Parameters hook() {
  const std::string prefix = "LifecycleHookSpecificationList.member.1.";
  return {{prefix + "LifecycleHookName", "hook"},
          {prefix + "LifecycleTransition", "autoscaling:EC2_INSTANCE_TERMINATING"},
          {prefix + "HeartbeatTimeout", "60"},
          {prefix + "DefaultResult", "CONTINUE"}};
}

TEST(AutoScaling, LaunchesSpotInstancesWithTheGroupsTagsAndReplacesThem) {
  Group api;
  const auto first = api.all<InstanceStarted>();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].user_data, "echo hi");
  const Instance& one = api.of(first[0].id);
  EXPECT_EQ(one.tags.at("aws:autoscaling:groupName"), "group");
  EXPECT_EQ(one.tags.at("spotter:job"), "mnist");
  EXPECT_FALSE(one.spot_request.empty());
  EXPECT_EQ(api.target_state(one.id), "InService");
  ASSERT_TRUE(api.world.kill(one.id, api.now));
  api.wait(20_s);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 2u);
  EXPECT_EQ(api.count("DescribeFleets", {}, "fleetSet/item"), 0u) << "it is no fleet of EC2's";
}

TEST(AutoScaling, SaysInItsActivitiesWhatItLaunchedAndWhyItLaunchedNothing) {
  Group api;
  const InstanceId one = api.all<InstanceStarted>().at(0).id;
  for (const char* zone : {"us-west-2a", "us-west-2b"})
    api.world.set_capacity(Zone(zone), 0, api.now);
  ASSERT_TRUE(api.world.kill(one, api.now));
  api.wait(60_s);
  api.group("DescribeScalingActivities", {{name_key, "group"}});
  EXPECT_EQ(api.read("StatusCode"), "Failed") << "the newest first";
  EXPECT_NE(api.read("StatusMessage").find("no Spot capacity"), std::string::npos);
  EXPECT_NE(api.document_text.find("Launching a new EC2 instance: " + one.str()),
            std::string::npos);
}

TEST(AutoScaling, TheBaseIsOnDemand) {
  Group api(
      Api::Parameters{{"MixedInstancesPolicy.InstancesDistribution.OnDemandBaseCapacity", "1"}});
  EXPECT_TRUE(api.of(api.all<InstanceStarted>().at(0).id).spot_request.empty());
}

TEST(AutoScaling, AtZeroItEndsItsInstancesAndLaunchesNone) {
  Group api;
  EXPECT_EQ(api.group("SetDesiredCapacity", {{name_key, "group"}, {"DesiredCapacity", "0"}}).status,
            200);
  api.wait(600_s);
  EXPECT_EQ(api.all<InstanceKilled>().size(), 1u);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 1u);
  api.group("DescribeAutoScalingGroups");
  EXPECT_EQ(api.read("DesiredCapacity"), "0");
  EXPECT_EQ(api.read("Instances/member/InstanceId"), "");
}

TEST(AutoScaling, KeepsItsBounds) {
  Group api(Api::Parameters{{"MinSize", "1"}});
  EXPECT_EQ(api.refused("SetDesiredCapacity", {{name_key, "group"}, {"DesiredCapacity", "0"}}),
            "ValidationError");
  EXPECT_EQ(api.refused("SetDesiredCapacity", {{name_key, "group"}, {"DesiredCapacity", "3"}}),
            "ValidationError");
  EXPECT_EQ(api.refused("SetDesiredCapacity", {{name_key, "none"}, {"DesiredCapacity", "1"}}),
            "ValidationError");
  EXPECT_EQ(api.refused("CreateAutoScalingGroup", {{name_key, "group"},
                                                   {"MinSize", "0"},
                                                   {"MaxSize", "1"},
                                                   {"LaunchTemplate.LaunchTemplateName", "trainer"},
                                                   {"AvailabilityZones.member.1", "us-west-2a"}}),
            "AlreadyExists");
}

TEST(AutoScaling, TakesNoNameZoneHookOrPageOutOfBounds) {
  Group group;
  const auto create = [&](const char* name, const char* zone) {
    return group.refused("CreateAutoScalingGroup",
                         {{name_key, name},
                          {"MinSize", "0"},
                          {"MaxSize", "1"},
                          {"LaunchTemplate.LaunchTemplateName", "trainer"},
                          {"AvailabilityZones.member.1", zone}});
  };
  EXPECT_EQ(create("a:b", "us-west-2a"), "ValidationError");
  EXPECT_EQ(create("ab", "us-west-2q"), "ValidationError");
  EXPECT_EQ(create("ab", "us-west-2a"), "");
  EXPECT_EQ(group.refused("DescribeAutoScalingGroups", {{"MaxRecords", "101"}}), "ValidationError");
  Api::Parameters short_hook = {{name_key, "group"},
                                {"LifecycleHookName", "h"},
                                {"LifecycleTransition", "autoscaling:EC2_INSTANCE_TERMINATING"},
                                {"HeartbeatTimeout", "29"}};
  EXPECT_EQ(group.refused("PutLifecycleHook", short_hook), "ValidationError");
}

TEST(AutoScaling, AHookHoldsATerminatingInstanceUntilItIsCompleted) {
  Group api(hook());
  const InstanceId id = api.all<InstanceStarted>().at(0).id;
  EXPECT_EQ(api.refused("CompleteLifecycleAction", {{name_key, "group"},
                                                    {"LifecycleHookName", "hook"},
                                                    {"LifecycleActionResult", "CONTINUE"},
                                                    {"InstanceId", id.str()}}),
            "ValidationError");
  api.group("TerminateInstanceInAutoScalingGroup",
            {{"InstanceId", id.str()}, {"ShouldDecrementDesiredCapacity", "true"}});
  api.wait(50_s);
  EXPECT_EQ(api.lifecycle(id), "Terminating:Wait");
  EXPECT_EQ(api.target_state(id), "Terminated");
  EXPECT_TRUE(api.all<InstanceShuttingDown>().empty());
  EXPECT_EQ(api.group("CompleteLifecycleAction", {{name_key, "group"},
                                                  {"LifecycleHookName", "hook"},
                                                  {"LifecycleActionResult", "CONTINUE"},
                                                  {"InstanceId", id.str()}})
                .status,
            200);
  api.wait(60_s);
  EXPECT_EQ(api.all<InstanceKilled>().size(), 1u);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 1u) << "nobody in its place";
}

TEST(AutoScaling, AHookThatNobodyCompletesTimesOut) {
  Group api(hook());
  const InstanceId id = api.all<InstanceStarted>().at(0).id;
  api.group("TerminateInstanceInAutoScalingGroup",
            {{"InstanceId", id.str()}, {"ShouldDecrementDesiredCapacity", "false"}});
  api.wait(59_s);
  EXPECT_TRUE(api.all<InstanceShuttingDown>().empty());
  EXPECT_EQ(api.all<InstanceStarted>().size(), 2u) << "the one that goes does not count any more";
  api.wait(2_s);
  EXPECT_EQ(api.all<InstanceShuttingDown>().size(), 1u);
}

TEST(AutoScaling, AnUpdateChangesWhatIsLaunchedNextAndKeepsTheRest) {
  Group api;
  const std::string overrides = "MixedInstancesPolicy.LaunchTemplate.Overrides.member.1.";
  api.group("UpdateAutoScalingGroup", {{name_key, "group"},
                                       {"DesiredCapacity", "2"},
                                       {overrides + "InstanceType", "p3.2xlarge"},
                                       {"AvailabilityZones.member.1", "us-west-2c"}});
  api.wait(20_s);
  const auto started = api.all<InstanceStarted>();
  ASSERT_EQ(started.size(), 2u);
  EXPECT_EQ(started[1].type, InstanceType("p3.2xlarge"));
  EXPECT_EQ(started[1].zone, Zone("us-west-2c"));
  EXPECT_EQ(started[1].user_data, "echo hi");
}

TEST(AutoScaling, LaunchesNothingWhileThatIsSuspended) {
  Group api;
  const Api::Parameters launch = {{name_key, "group"}, {"ScalingProcesses.member.1", "Launch"}};
  api.group("SuspendProcesses", launch);
  ASSERT_TRUE(api.world.kill(api.all<InstanceStarted>().at(0).id, api.now));
  api.wait(120_s);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 1u);
  api.group("ResumeProcesses", launch);
  api.wait(20_s);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 2u);
}

TEST(AutoScaling, JudgesByTheGroupsTagsAndTheTagsThatAreSent) {
  Group api;
  ASSERT_TRUE(api.world.set_policies("user", {R"({"Version": "2012-10-17", "Statement": [
      {"Effect": "Allow", "Action": "autoscaling:SetDesiredCapacity",
       "Resource": "arn:aws:autoscaling:us-west-2:123456789012:autoScalingGroup:*",
       "Condition": {"StringEquals": {"autoscaling:ResourceTag/spotter:job": "mnist"}}}]})"}));
  const Api::Parameters zero = {{name_key, "group"}, {"DesiredCapacity", "0"}};
  EXPECT_EQ(api.refused("SetDesiredCapacity", zero), "");
  EXPECT_EQ(api.refused("SuspendProcesses", zero), "AccessDenied");
  EXPECT_EQ(api.refused("DescribeAutoScalingGroups", {}), "AccessDenied");
}

TEST(AutoScaling, ReplacesWhatGotARebalanceRecommendationWhereItIsAskedTo) {
  Group api(Api::Parameters{{"CapacityRebalance", "true"}});
  const InstanceId first = api.all<InstanceStarted>().at(0).id;
  ASSERT_TRUE(api.world.rebalance(first, api.now));
  api.wait(60_s);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 2u);
  EXPECT_EQ(api.lifecycle(first), "InService");
  api.wait(600_s);
  EXPECT_EQ(api.of(first).state, InstanceState::Terminated);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 2u);
}

TEST(AutoScaling, PaysNoMoreThanItsMaximumPrice) {
  Group api(Api::Parameters{{"MixedInstancesPolicy.InstancesDistribution.SpotMaxPrice", "0.77"}});
  EXPECT_EQ(api.of(api.all<InstanceStarted>().at(0).id).max_price, "0.77");
  EXPECT_EQ(api.refused("SetDesiredCapacity",
                        {{name_key, "group"}, {"DesiredCapacity", "1"}, {"HonorCooldown", "true"}}),
            "ValidationError");
}

}  // namespace
}  // namespace spotter::world
