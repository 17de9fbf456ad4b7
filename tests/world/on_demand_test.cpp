// On-demand instances of fleets: capacity of their own, no notice, and what EC2 shows of them.
#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

constexpr const char* config = "SpotFleetRequestConfig.";

struct OnDemand : testing::Test {
  OnDemand() {
    api.raw("CreateLaunchTemplate", {{"LaunchTemplateName", "trainer"},
                                     {"LaunchTemplateData.ImageId", "ami-1a2b3c4d"},
                                     {"LaunchTemplateData.InstanceType", "g5.xlarge"}});
  }
  // A fleet of `total`, so many of them on demand, in all zones.
  std::string fleet(const std::string& total, const std::string& on_demand) {
    return api.ask("CreateFleet",
                   {{"Type", "maintain"},
                    {target + "TotalTargetCapacity", total},
                    {target + "OnDemandTargetCapacity", on_demand},
                    {target + "DefaultTargetCapacityType", "spot"},
                    {template_ + "LaunchTemplateName", "trainer"},
                    {template_ + "Version", "1"}},
                   "fleetId");
  }
  std::size_t running(bool spot) {
    std::size_t found = 0;
    for (const Instance& it : api.world.instances(api.now).list())
      found += it.state == InstanceState::Running && it.spot_request.empty() != spot;
    return found;
  }
  void no_spot_capacity() {
    for (const char* zone : {"us-west-2a", "us-west-2b", "us-west-2c"})
      api.world.set_capacity(Zone(zone), 0, api.now);
  }
  const std::string target = "TargetCapacitySpecification.";
  const std::string template_ = "LaunchTemplateConfigs.1.LaunchTemplateSpecification.";
  Api api;
};

TEST_F(OnDemand, ComesWhereThereIsNoSpotCapacity) {
  no_spot_capacity();
  const std::string id = fleet("2", "1");
  api.wait(60_s);
  EXPECT_EQ(running(false), 1u);
  EXPECT_EQ(running(true), 0u);
  EXPECT_EQ(
      api.ask("DescribeFleets", {{"FleetId.1", id}}, "fleetSet/item/fulfilledOnDemandCapacity"),
      "1.000000");
  EXPECT_EQ(api.ask("DescribeFleets", {{"FleetId.1", id}}, "fleetSet/item/activityStatus"),
            "pending_fulfillment");
  api.world.set_capacity(Zone("us-west-2b"), std::nullopt, api.now);
  api.wait(60_s);
  EXPECT_EQ(running(true), 1u);
}

TEST_F(OnDemand, MayLackCapacityToo) {
  for (const char* zone : {"us-west-2a", "us-west-2b", "us-west-2c"})
    ASSERT_TRUE(api.world.fault("capacity", {{"zone", zone}, {"on-demand", "0"}}, api.now));
  fleet("2", "1");
  api.wait(60_s);
  EXPECT_EQ(running(false), 0u);
  EXPECT_EQ(running(true), 1u) << "the fault leaves spot capacity alone";
}

TEST_F(OnDemand, IsReplacedWhenItEnds) {
  fleet("1", "1");
  api.wait(30_s);
  ASSERT_TRUE(api.world.kill(api.all<InstanceStarted>().at(0).id, api.now));
  api.wait(60_s);
  EXPECT_EQ(running(false), 1u);
  EXPECT_EQ(running(true), 0u);
}

TEST_F(OnDemand, GetsNeitherNoticeNorRecommendation) {
  fleet("1", "1");
  api.wait(30_s);
  const InstanceId id = api.all<InstanceStarted>().at(0).id;
  EXPECT_FALSE(api.world.interrupt(id, InterruptionAction::Terminate, 120_s, api.now));
  EXPECT_FALSE(api.world.rebalance(id, api.now));
}

TEST_F(OnDemand, IsShownWithoutWhatOnlySpotInstancesHave) {
  const std::string id = fleet("1", "1");
  api.wait(30_s);
  const std::string instance = "reservationSet/item/instancesSet/item/";
  EXPECT_EQ(api.count("DescribeInstances", {}, instance + "instanceId"), 1u);
  EXPECT_EQ(api.count("DescribeInstances", {}, instance + "instanceLifecycle"), 0u);
  EXPECT_EQ(api.count("DescribeSpotInstanceRequests", {}, "spotInstanceRequestSet/item"), 0u);
  EXPECT_EQ(api.count("DescribeFleetInstances", {{"FleetId", id}},
                      "activeInstanceSet/item/spotInstanceRequestId"),
            0u);
}

TEST_F(OnDemand, SharesAreChangedTogether) {
  const std::string id = fleet("1", "1");
  api.wait(30_s);
  // The references leave open what would become of the on-demand instance.
  EXPECT_EQ(api.error("ModifyFleet", {{"FleetId", id}, {target + "TotalTargetCapacity", "0"}}),
            "InvalidParameterValue");
  EXPECT_EQ(api.error("ModifyFleet", {{"FleetId", id}, {target + "OnDemandTargetCapacity", "0"}}),
            "MissingParameter");
  EXPECT_EQ(api.ask("ModifyFleet",
                    {{"FleetId", id},
                     {target + "TotalTargetCapacity", "1"},
                     {target + "OnDemandTargetCapacity", "0"}},
                    "return"),
            "true");
  api.wait(60_s);
  EXPECT_EQ(running(false), 0u);
  EXPECT_EQ(running(true), 1u);
}

TEST_F(OnDemand, MoreOfItThanOfAllIsRefused) {
  EXPECT_EQ(api.error("CreateFleet", {{target + "TotalTargetCapacity", "1"},
                                      {target + "OnDemandTargetCapacity", "2"},
                                      {template_ + "LaunchTemplateName", "trainer"},
                                      {template_ + "Version", "1"}}),
            "InvalidParameterValue");
}

TEST_F(OnDemand, ASpotFleetHasAShareOfItAsWell) {
  no_spot_capacity();
  const std::string id = api.spot_fleet({{std::string(config) + "OnDemandTargetCapacity", "1"}});
  api.wait(60_s);
  EXPECT_EQ(running(false), 1u);
  const std::string shown = "spotFleetRequestConfigSet/item/spotFleetRequestConfig/";
  EXPECT_EQ(api.ask("DescribeSpotFleetRequests", {}, shown + "onDemandTargetCapacity"), "1");
  EXPECT_EQ(api.ask("DescribeSpotFleetRequests", {}, shown + "onDemandFulfilledCapacity"),
            "1.000000");
  EXPECT_EQ(
      api.ask(
          "ModifySpotFleetRequest",
          {{"SpotFleetRequestId", id}, {"TargetCapacity", "0"}, {"OnDemandTargetCapacity", "0"}},
          "return"),
      "true");
  api.wait(60_s);
  EXPECT_EQ(running(false), 0u);
}

}  // namespace
}  // namespace spotter::world
