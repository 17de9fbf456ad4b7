#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

TEST(SpotFleet, LaunchesItsUserDataInOneOfTheNamedZones) {
  Api api;
  const std::string fleet = api.spot_fleet();
  EXPECT_EQ(fleet.rfind("sfr-", 0), 0u);
  EXPECT_EQ(api.fleet_state(fleet), "submitted");
  api.wait(20_s);
  EXPECT_EQ(api.fleet_state(fleet), "active");
  const auto started = api.all<InstanceStarted>();
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started[0].user_data, "echo hi");
  EXPECT_NE(started[0].zone, Zone("us-west-2c"));
  const Api::Parameters by_tag = {{"Filter.1.Name", "tag:aws:ec2spot:fleet-request-id"},
                                  {"Filter.1.Value.1", fleet}};
  EXPECT_EQ(
      api.ask("DescribeInstances", by_tag, "reservationSet/item/instancesSet/item/instanceId"),
      started[0].id.view());
  EXPECT_EQ(api.ask("DescribeSpotFleetRequests", {},
                    "spotFleetRequestConfigSet/item/spotFleetRequestConfig/launchSpecifications/"
                    "item/placement/availabilityZone"),
            "us-west-2a, us-west-2b");
}

TEST(SpotFleet, AnInterruptedInstanceIsKilledAtItsDeadlineAndReplacedInAnotherZone) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Api api({}, seed);
    api.spot_fleet();
    api.wait(20_s);
    const InstanceStarted first = api.all<InstanceStarted>().at(0);
    const std::string volume = api.ask(
        "CreateVolume", {{"AvailabilityZone", first.zone.str()}, {"Size", "8"}}, "volumeId");
    api.wait(5_s);
    api.raw("AttachVolume",
            {{"VolumeId", volume}, {"InstanceId", first.id.str()}, {"Device", "/dev/sdf"}});
    api.wait(5_s);
    ASSERT_TRUE(api.world.interrupt(first.id, InterruptionAction::Terminate, 120_s, api.now));
    api.wait(119_s);
    EXPECT_TRUE(api.all<InstanceKilled>().empty());
    api.wait(1_s);
    EXPECT_EQ(api.all<InstanceKilled>().size(), 1u);
    EXPECT_EQ(api.error("DetachVolume", {{"VolumeId", volume}}), "IncorrectInstanceState");
    api.wait(20_s);
    EXPECT_EQ(api.volume_state(volume), "available");
    const auto started = api.all<InstanceStarted>();
    ASSERT_EQ(started.size(), 2u) << "seed " << seed;
    EXPECT_NE(started[1].zone, first.zone) << "seed " << seed;
  }
}

TEST(SpotFleet, LaunchesNothingWithATagThatMetadataCannotShowAndSaysSoInItsHistoryAlone) {
  Settings settings;
  settings.metadata_tags = true;
  Api api(settings);
  const std::string tag = "SpotFleetRequestConfig.LaunchSpecifications.1.TagSpecificationSet.1.";
  const std::string fleet = api.spot_fleet({{tag + "ResourceType", "instance"},
                                            {tag + "Tag.1.Key", "cost center"},
                                            {tag + "Tag.1.Value", "speech"}});
  api.wait(60_s);
  EXPECT_TRUE(api.all<InstanceStarted>().empty());
  EXPECT_EQ(api.fleet_state(fleet), "active");
  const Api::Parameters all = {{"SpotFleetRequestId", fleet},
                               {"StartTime", "2020-01-01T00:00:00Z"}};
  const std::string history = api.raw("DescribeSpotFleetRequestHistory", all).body;
  EXPECT_NE(history.find("<eventType>error</eventType>"), history.npos) << history;
  EXPECT_NE(history.find("cost center' is not a valid tag key"), history.npos) << history;
}

TEST(SpotFleet, AWithdrawnNoticeKillsNobody) {
  Api api;
  api.spot_fleet();
  api.wait(20_s);
  const InstanceId id = api.all<InstanceStarted>().at(0).id;
  ASSERT_TRUE(api.world.interrupt(id, InterruptionAction::Terminate, 120_s, api.now));
  api.wait(60_s);
  ASSERT_TRUE(api.world.withdraw(id, api.now));
  api.wait(600_s);
  EXPECT_TRUE(api.all<InstanceKilled>().empty());
  EXPECT_FALSE(api.world.withdraw(id, api.now));
}

TEST(SpotFleet, AStoppedInstanceKeepsItsVolumes) {
  Api api;
  const std::string id = api.instance();
  const std::string volume = api.attached_volume(id);
  ASSERT_TRUE(api.world.interrupt(InstanceId(id), InterruptionAction::Stop, 5_s, api.now));
  api.wait(60_s);
  EXPECT_EQ(
      api.ask("DescribeInstances", {}, "reservationSet/item/instancesSet/item/instanceState/name"),
      "stopped");
  EXPECT_EQ(api.volume_state(volume), "in-use");
}

TEST(SpotFleet, CancelledTerminatesItsInstancesAndLaunchesNone) {
  Api api;
  const std::string fleet = api.spot_fleet({{"SpotFleetRequestConfig.TargetCapacity", "3"}});
  api.wait(20_s);
  ASSERT_EQ(api.all<InstanceStarted>().size(), 3u);
  EXPECT_EQ(api.ask("CancelSpotFleetRequests",
                    {{"SpotFleetRequestId.1", fleet}, {"TerminateInstances", "true"}},
                    "successfulFleetRequestSet/item/currentSpotFleetRequestState"),
            "cancelled_terminating");
  api.wait(600_s);
  EXPECT_EQ(api.all<InstanceShuttingDown>().size(), 3u);
  EXPECT_EQ(api.all<InstanceKilled>().size(), 3u);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 3u);
  EXPECT_EQ(api.fleet_state(fleet), "cancelled");
}

TEST(SpotFleet, CancelFailsIdById) {
  Api api;
  const std::string fleet = api.spot_fleet();
  api.wait(20_s);
  const Api::Parameters call = {
      {"SpotFleetRequestId.1", fleet},
      {"SpotFleetRequestId.2", "sfr-01234567-89ab-cdef-0123-456789abcdef"},
      {"TerminateInstances", "true"}};
  ASSERT_TRUE(api.world.fault("cancel-fails", {{"count", "1"}}, api.now));
  EXPECT_EQ(api.raw("CancelSpotFleetRequests", call).status, 200);
  EXPECT_EQ(api.fleet_state(fleet), "active");
  EXPECT_EQ(api.ask("CancelSpotFleetRequests", call, "unsuccessfulFleetRequestSet/item/error/code"),
            "fleetRequestIdDoesNotExist");
  EXPECT_EQ(api.fleet_state(fleet), "cancelled_terminating");
}

TEST(SpotFleet, ScaledToZeroTerminatesAndStays) {
  Api api;
  const std::string fleet = api.spot_fleet();
  api.wait(20_s);
  EXPECT_EQ(api.ask("ModifySpotFleetRequest",
                    {{"SpotFleetRequestId", fleet}, {"TargetCapacity", "0"}}, "return"),
            "true");
  EXPECT_EQ(api.fleet_state(fleet), "modifying");
  api.wait(120_s);
  EXPECT_EQ(api.count("DescribeSpotFleetInstances", {{"SpotFleetRequestId", fleet}},
                      "activeInstanceSet/item"),
            0u);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 1u);
  EXPECT_EQ(api.fleet_state(fleet), "active");
}

TEST(SpotFleet, WaitsForCapacity) {
  Api api;
  for (const char* zone : {"us-west-2a", "us-west-2b"}) {
    api.world.set_capacity(Zone(zone), 0, api.now);
  }
  api.spot_fleet();
  api.wait(600_s);
  EXPECT_TRUE(api.all<InstanceStarted>().empty());
  api.world.set_capacity(Zone("us-west-2b"), std::nullopt, api.now);
  api.wait(30_s);
  ASSERT_EQ(api.all<InstanceStarted>().size(), 1u);
  EXPECT_EQ(api.all<InstanceStarted>()[0].zone, Zone("us-west-2b"));
}

TEST(SpotFleet, AOneTimeRequestReplacesNothing) {
  Api api;
  api.spot_fleet({{"SpotFleetRequestConfig.Type", "request"}});
  api.wait(20_s);
  ASSERT_TRUE(api.world.kill(api.all<InstanceStarted>().at(0).id, api.now));
  api.wait(600_s);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 1u);
}

struct Ec2Fleet : testing::Test {
  Ec2Fleet() {
    api.raw("CreateLaunchTemplate",
            {{"LaunchTemplateName", "trainer"},
             {"LaunchTemplateData.ImageId", "ami-1a2b3c4d"},
             {"LaunchTemplateData.InstanceType", "g5.xlarge"},
             {"LaunchTemplateData.UserData", "ZWNobyBoaQ=="},
             {"LaunchTemplateData.TagSpecification.1.ResourceType", "instance"},
             {"LaunchTemplateData.TagSpecification.1.Tag.1.Key", "job"},
             {"LaunchTemplateData.TagSpecification.1.Tag.1.Value", "mnist"}});
  }
  Api::Parameters call(const std::string& type) {
    const std::string config = "LaunchTemplateConfigs.1.";
    return {{"Type", type},
            {"TargetCapacitySpecification.TotalTargetCapacity", "2"},
            {"TargetCapacitySpecification.DefaultTargetCapacityType", "spot"},
            {config + "LaunchTemplateSpecification.LaunchTemplateName", "trainer"},
            {config + "LaunchTemplateSpecification.Version", "$Latest"},
            {config + "Overrides.1.AvailabilityZone", "us-west-2b"},
            {config + "Overrides.2.AvailabilityZone", "us-west-2c"},
            {config + "Overrides.2.InstanceType", "p3.2xlarge"}};
  }
  Api api;
};

TEST_F(Ec2Fleet, OfTypeInstantAnswersWithItsInstances) {
  EXPECT_EQ(api.count("CreateFleet", call("instant"), "fleetInstanceSet/item/instanceIds/item"),
            2u);
}

TEST_F(Ec2Fleet, SaysInItsHistoryWhyItLaunchedNothing) {
  for (const char* zone : {"us-west-2b", "us-west-2c"})
    api.world.set_capacity(Zone(zone), 0, api.now);
  const std::string id = api.ask("CreateFleet", call("maintain"), "fleetId");
  api.wait(60_s);
  const Api::Parameters all = {{"FleetId", id}, {"StartTime", "2020-01-01T00:00:00Z"}};
  const std::string history = api.raw("DescribeFleetHistory", all).body;
  EXPECT_NE(history.find("<eventType>service-error</eventType>"), history.npos) << history;
  EXPECT_NE(history.find("<eventSubType>InsufficientInstanceCapacity</"), history.npos) << history;
  EXPECT_EQ(api.error("DescribeFleetHistory", {{"FleetId", id}}), "MissingParameter");
  EXPECT_EQ(
      api.error("DescribeFleetHistory", {{"FleetId", "fleet-01234567-89ab-cdef-0123-456789abcdef"},
                                         {"StartTime", "2020-01-01T00:00:00Z"}}),
      "InvalidFleetId.NotFound");
}

TEST_F(Ec2Fleet, IsMaintainedModifiedAndDeleted) {
  const std::string id = api.ask("CreateFleet", call("maintain"), "fleetId");
  api.wait(20_s);
  ASSERT_EQ(api.all<InstanceStarted>().size(), 2u);
  const InstanceStarted first = api.all<InstanceStarted>()[0];
  EXPECT_EQ(first.user_data, "echo hi");
  EXPECT_EQ(api.count("DescribeInstances",
                      {{"Filter.1.Name", "tag:aws:ec2:fleet-id"},
                       {"Filter.1.Value.1", id},
                       {"Filter.2.Name", "tag:job"},
                       {"Filter.2.Value.1", "mnist"}},
                      "reservationSet/item"),
            2u);
  ASSERT_TRUE(api.world.kill(first.id, api.now));
  api.wait(30_s);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 3u);
  api.raw("ModifyFleet",
          {{"FleetId", id}, {"TargetCapacitySpecification.TotalTargetCapacity", "1"}});
  api.wait(30_s);
  EXPECT_EQ(api.count("DescribeFleetInstances", {{"FleetId", id}}, "activeInstanceSet/item"), 1u);
  EXPECT_EQ(api.ask("DeleteFleets",
                    {{"FleetId.1", id}, {"FleetId.2", "fleet-x"}, {"TerminateInstances", "true"}},
                    "successfulFleetDeletionSet/item/currentFleetState"),
            "deleted_terminating");
  api.wait(60_s);
  EXPECT_EQ(api.ask("DescribeFleets", {{"FleetId.1", id}}, "fleetSet/item/fleetState"), "deleted");
}

TEST(Instance, IsRunByHandAndTerminatedWithItsStateShown) {
  Api api;
  const std::string id = api.ask("RunInstances",
                                 {{"ImageId", "ami-1a2b3c4d"},
                                  {"MinCount", "1"},
                                  {"MaxCount", "1"},
                                  {"InstanceType", "t3.micro"}},
                                 "instancesSet/item/instanceId");
  api.wait(10_s);
  EXPECT_EQ(
      api.ask("TerminateInstances", {{"InstanceId.1", id}}, "instancesSet/item/currentState/name"),
      "shutting-down");
  api.wait(10_s);
  EXPECT_EQ(
      api.count("DescribeInstances",
                {{"Filter.1.Name", "instance-state-name"}, {"Filter.1.Value.1", "terminated"}},
                "reservationSet/item"),
      1u);
  api.wait(2 * 3600_s);
  EXPECT_EQ(api.count("DescribeInstances", {}, "reservationSet/item"), 0u);
}

TEST(World, TheSameSeedGivesTheSameStoryAndACopyGoesItsOwnWay) {
  const auto story = [](std::uint64_t seed) {
    Api api({}, seed);
    api.spot_fleet();
    api.wait(300_s);
    return api.world.state_json(api.now);
  };
  EXPECT_EQ(story(7), story(7));
  EXPECT_NE(story(7), story(8));
  World original({}, 7);
  World copy = original;
  ASSERT_TRUE(copy.add_instance("us-west-2a", "t3.micro", Time{}));
  EXPECT_TRUE(original.instances(Time{}).list().empty());
}

}  // namespace
}  // namespace spotter::world
