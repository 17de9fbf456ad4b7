// Placement groups: what EC2 refuses of them, and of launches into them.
#include <algorithm>

#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

struct Placement : testing::Test {
  std::string make(const char* name, const char* strategy = "cluster") {
    const std::string error =
        api.error("CreatePlacementGroup", {{"GroupName", name}, {"Strategy", strategy}});
    api.wait(2_s);
    return error;
  }
  std::string run(const char* group, const char* zone, const char* type = "g5.xlarge") {
    return api.error("RunInstances", {{"ImageId", "ami-1a2b3c4d"},
                                      {"InstanceType", type},
                                      {"MinCount", "1"},
                                      {"MaxCount", "1"},
                                      {"Placement.GroupName", group},
                                      {"Placement.AvailabilityZone", zone}});
  }
  void end_all() {
    for (const Instance& it : api.world.instances(api.now).list())
      api.raw("TerminateInstances", {{"InstanceId.1", it.id.str()}});
  }
  Api api;
};

TEST_F(Placement, GroupsHaveOneNameEach) {
  EXPECT_EQ(make("near"), "");
  EXPECT_EQ(make("near"), "InvalidPlacementGroup.Duplicate");
  EXPECT_EQ(make("far", "distant"), "InvalidParameterValue");
  EXPECT_EQ(api.error("DescribePlacementGroups", {{"GroupName.1", "far"}}),
            "InvalidPlacementGroup.Unknown");
  const std::string found = "placementGroupSet/item/groupName";
  EXPECT_EQ(api.ask("DescribePlacementGroups", {{"GroupName.1", "near"}}, found), "near");
  EXPECT_EQ(api.count("DescribePlacementGroups",
                      {{"Filter.1.Name", "group-name"}, {"Filter.1.Value.1", "far"}}, found),
            0u);
}

TEST_F(Placement, IsInOneZoneForAsLongAsThereIsAnInstance) {
  EXPECT_EQ(run("near", "us-west-2a"), "InvalidPlacementGroup.Unknown");
  make("near");
  EXPECT_EQ(run("near", "us-west-2a"), "");
  EXPECT_EQ(run("near", "us-west-2b"), "InvalidPlacementGroup.InUse");
  EXPECT_EQ(api.error("DeletePlacementGroup", {{"GroupName", "near"}}),
            "InvalidPlacementGroup.InUse");
  api.wait(60_s);
  end_all();
  EXPECT_EQ(api.error("DeletePlacementGroup", {{"GroupName", "near"}}),
            "InvalidPlacementGroup.InUse")
      << "an instance that shuts down is still there";
  api.wait(600_s);
  EXPECT_EQ(run("near", "us-west-2b"), "");
  api.wait(60_s);
  end_all();
  api.wait(600_s);
  EXPECT_EQ(api.error("DeletePlacementGroup", {{"GroupName", "near"}}), "");
  EXPECT_EQ(api.error("DeletePlacementGroup", {{"GroupName", "near"}}),
            "InvalidPlacementGroup.Unknown");
}

TEST_F(Placement, CanBeUsedOnceItIsAvailable) {
  const std::string state = "placementGroupSet/item/state";
  api.raw("CreatePlacementGroup", {{"GroupName", "near"}});
  EXPECT_EQ(api.ask("DescribePlacementGroups", {}, state), "pending");
  EXPECT_EQ(run("near", "us-west-2a"), "InvalidPlacementGroup.Unknown");
  api.wait(2_s);
  EXPECT_EQ(api.ask("DescribePlacementGroups", {}, state), "available");
  api.raw("DeletePlacementGroup", {{"GroupName", "near"}});
  EXPECT_EQ(api.ask("DescribePlacementGroups", {}, state), "deleting");
  EXPECT_EQ(run("near", "us-west-2a"), "InvalidPlacementGroup.Unknown");
  EXPECT_EQ(make("near"), "InvalidPlacementGroup.Duplicate");
  EXPECT_EQ(api.count("DescribePlacementGroups", {}, state), 0u);
  EXPECT_EQ(make("near"), "");
  EXPECT_EQ(run("near", "us-west-2a"), "");
}

TEST_F(Placement, KeepsATerminatedInstanceForAWhile) {
  api.world.settings().placement_left = 60_s;
  make("near");
  run("near", "us-west-2a");
  api.wait(60_s);
  end_all();
  api.wait(10_s);
  EXPECT_EQ(api.error("DeletePlacementGroup", {{"GroupName", "near"}}),
            "InvalidPlacementGroup.InUse");
  api.wait(60_s);
  EXPECT_EQ(api.error("DeletePlacementGroup", {{"GroupName", "near"}}), "");
}

TEST_F(Placement, OfAClusterIsNotForEachType) {
  make("near");
  make("apart", "spread");
  EXPECT_EQ(run("near", "us-west-2a", "t3.micro"), "InvalidParameterCombination");
  EXPECT_EQ(run("apart", "us-west-2a", "t3.micro"), "");
}

TEST_F(Placement, ThatSpreadsTakesSevenInAZone) {
  make("apart", "spread");
  for (int i = 0; i < 7; ++i) EXPECT_EQ(run("apart", "us-west-2a"), "");
  EXPECT_EQ(run("apart", "us-west-2a"), "InsufficientInstanceCapacity");
  EXPECT_EQ(run("apart", "us-west-2b"), "");
}

TEST_F(Placement, OfAFleetIsItsTemplates) {
  api.raw("CreateLaunchTemplate", {{"LaunchTemplateName", "trainer"},
                                   {"LaunchTemplateData.ImageId", "ami-1a2b3c4d"},
                                   {"LaunchTemplateData.InstanceType", "g5.xlarge"},
                                   {"LaunchTemplateData.Placement.GroupName", "near"}});
  const std::string configs = "LaunchTemplateConfigs.1.";
  api.raw("CreateFleet", {{"TargetCapacitySpecification.TotalTargetCapacity", "2"},
                          {"TargetCapacitySpecification.SpotTargetCapacity", "2"},
                          {configs + "LaunchTemplateSpecification.LaunchTemplateName", "trainer"},
                          {configs + "LaunchTemplateSpecification.Version", "1"}});
  api.wait(60_s);
  EXPECT_EQ(api.world.instances(api.now).list().size(), 0u) << "there is no such group";
  make("near");
  api.wait(600_s);
  const auto instances = api.world.instances(api.now).list();
  ASSERT_EQ(instances.size(), 2u);
  EXPECT_EQ(instances[0].zone, instances[1].zone);
  EXPECT_EQ(instances[0].placement_group, "near");
}

// botocore's model, FleetLaunchTemplateOverridesRequest.Placement: of what it has only the group is
// supported for CreateFleet; and LaunchTemplateOverrides, of a Spot Fleet, has no such member.
TEST_F(Placement, OfAnOverrideIsAGroupAlone) {
  make("near");
  make("apart", "spread");
  const std::string id = api.ask("DescribePlacementGroups", {{"GroupName.1", "apart"}},
                                 "placementGroupSet/item/groupId");
  api.raw("CreateLaunchTemplate", {{"LaunchTemplateName", "trainer"},
                                   {"LaunchTemplateData.ImageId", "ami-1a2b3c4d"},
                                   {"LaunchTemplateData.InstanceType", "g5.xlarge"},
                                   {"LaunchTemplateData.Placement.GroupName", "near"}});
  const auto create = [&](const Api::Parameters& placement, const std::string& action) {
    const std::string prefix = action == "CreateFleet" ? "" : "SpotFleetRequestConfig.";
    const std::string config = prefix + "LaunchTemplateConfigs.1.";
    Api::Parameters call = {{config + "LaunchTemplateSpecification.LaunchTemplateName", "trainer"},
                            {config + "LaunchTemplateSpecification.Version", "1"},
                            {config + "Overrides.1.AvailabilityZone", "us-west-2a"}};
    if (prefix.empty()) {
      call["TargetCapacitySpecification.TotalTargetCapacity"] = "1";
      call["TargetCapacitySpecification.DefaultTargetCapacityType"] = "spot";
    } else {
      call[prefix + "TargetCapacity"] = "1";
      call[prefix + "IamFleetRole"] = "arn:aws:iam::123456789012:role/fleet";
    }
    for (const auto& [name, value] : placement)
      call[config + "Overrides.1.Placement." + name] = value;
    return api.error(action, call);
  };
  EXPECT_EQ(create({{"AvailabilityZone", "us-west-2a"}}, "CreateFleet"), "InvalidParameter");
  EXPECT_EQ(create({{"Tenancy", "dedicated"}}, "CreateFleet"), "InvalidParameter");
  EXPECT_EQ(create({{"GroupName", "near"}, {"GroupId", id}}, "CreateFleet"),
            "InvalidParameterCombination");
  EXPECT_EQ(create({{"GroupName", "near"}}, "RequestSpotFleet"), "UnknownParameter");
  const auto in = [&](const std::string& group) {
    const auto all = api.world.instances(api.now).list();
    return std::ranges::count(all, group, &Instance::placement_group);
  };
  const auto launch = [&](const Api::Parameters& placement) {
    EXPECT_EQ(create(placement, "CreateFleet"), "");
    api.wait(120_s);
  };
  launch({});
  EXPECT_EQ(in("near"), 1) << "also where an override names a zone";
  launch({{"GroupName", "apart"}});
  EXPECT_EQ(in("apart"), 1);
  launch({{"GroupId", id}});
  EXPECT_EQ(in("apart"), 2);
  EXPECT_EQ(in("near"), 1);
}

}  // namespace
}  // namespace spotter::world
