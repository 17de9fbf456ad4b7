// Capacity blocks and interruptible reservations: what is launched into them, and how they end.
#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

const std::string target = "TargetCapacitySpecification.";
const std::string from = "LaunchTemplateConfigs.1.LaunchTemplateSpecification.";

struct Reservation : testing::Test {
  std::string reserve(const char* market, int instances, std::optional<Duration> ends = {}) {
    CapacityReservation it{.market = market,
                           .type = InstanceType("g5.xlarge"),
                           .zone = Zone("us-west-2a"),
                           .total = instances,
                           .begins = api.now};
    if (ends) it.ends = api.now + *ends;
    return *api.world.reserve(it, api.now);
  }
  // A launch template that names the reservation.
  std::string named(const std::string& id, const std::string& market) {
    const std::string name = "template-" + std::to_string(++templates_);
    const std::string data = "LaunchTemplateData.";
    Api::Parameters all{{"LaunchTemplateName", name},
                        {data + "ImageId", "ami-1a2b3c4d"},
                        {data + "InstanceType", "g5.xlarge"}};
    if (!market.empty()) all[data + "InstanceMarketOptions.MarketType"] = market;
    if (!id.empty())
      all[data +
          "CapacityReservationSpecification.CapacityReservationTarget."
          "CapacityReservationId"] = id;
    EXPECT_EQ(api.error("CreateLaunchTemplate", all), "");
    return name;
  }
  Api::Parameters fleet(const std::string& name, const std::string& type,
                        const std::string& total = "1") {
    Api::Parameters all{{"Type", "instant"},
                        {target + "TotalTargetCapacity", total},
                        {target + "DefaultTargetCapacityType", type},
                        {from + "LaunchTemplateName", name},
                        {from + "Version", "1"},
                        {"LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone", "us-west-2a"}};
    if (type == "reserved-capacity")
      all["ReservedCapacityOptions.ReservationType.1"] = interruptible_market;
    return all;
  }
  std::string run(const std::string& name) {
    return api.error("RunInstances", {{"LaunchTemplate.LaunchTemplateName", name},
                                      {"Placement.AvailabilityZone", "us-west-2a"},
                                      {"MinCount", "1"},
                                      {"MaxCount", "1"}});
  }
  int living() {
    int alive = 0;
    for (const Instance& it : api.world.instances(api.now).list()) alive += is_alive(it);
    return alive;
  }
  std::string shown(const std::string& id, const std::string& what) {
    return api.ask("DescribeCapacityReservations", {{"CapacityReservationId.1", id}},
                   "capacityReservationSet/item/" + what);
  }
  Api api;
  int templates_ = 0;
};

TEST_F(Reservation, BlockTakesOnlyWhoNamesItAsOne) {
  const auto block = reserve(block_market, 1, 7200_s);
  const char* wrong = "InvalidParameterCombination";
  EXPECT_EQ(run(named("", block_market)), wrong);
  EXPECT_EQ(run(named(block, "")), wrong);
  EXPECT_EQ(run(named(block, interruptible_market)), wrong);
  EXPECT_EQ(run(named("cr-00000000000000000", block_market)),
            "InvalidCapacityReservationId.NotFound");
  const auto right = named(block, block_market);
  EXPECT_EQ(run(right), "");
  EXPECT_EQ(run(right), "InsufficientInstanceCapacity");
  const std::string found = "reservationSet/item/instancesSet/item/";
  EXPECT_EQ(api.ask("DescribeInstances", {}, found + "instanceLifecycle"), block_market);
  EXPECT_EQ(api.ask("DescribeInstances", {}, found + "capacityReservationId"), block);
  EXPECT_EQ(shown(block, "availableInstanceCount"), "0");
  EXPECT_EQ(shown(block, "reservationType"), "capacity-block");
}

TEST_F(Reservation, FleetIsInstantAndOfNothingElse) {
  const auto block = named(reserve(block_market, 2, 7200_s), block_market);
  const auto lent = named(reserve(interruptible_market, 2), interruptible_market);
  const auto refused = [&](Api::Parameters all) { return api.error("CreateFleet", all); };
  const char* wrong = "InvalidParameterCombination";
  auto maintain = fleet(block, "capacity-block");
  maintain["Type"] = "maintain";
  EXPECT_EQ(refused(maintain), wrong);
  auto beside = fleet(lent, "reserved-capacity");
  beside[target + "OnDemandTargetCapacity"] = "0";
  EXPECT_EQ(refused(beside), wrong);
  auto without = fleet(lent, "reserved-capacity");
  without.erase("ReservedCapacityOptions.ReservationType.1");
  EXPECT_EQ(refused(without), wrong);
  EXPECT_EQ(refused(fleet(block, "reserved-capacity")), wrong);
  EXPECT_EQ(refused(fleet(block, "spot")), wrong) << "a template of reserved capacity";
  EXPECT_EQ(refused(fleet(named("", ""), "capacity-block")), wrong);
  EXPECT_EQ(living(), 0);
  EXPECT_EQ(refused(fleet(block, "capacity-block", "2")), "");
  EXPECT_EQ(living(), 2);
}

TEST_F(Reservation, FleetLaunchesAsManyAsFitAndReplacesNone) {
  const auto lent = reserve(interruptible_market, 2);
  const auto name = named(lent, interruptible_market);
  const auto id = api.ask("CreateFleet", fleet(name, "reserved-capacity", "3"), "fleetId");
  EXPECT_EQ(living(), 2);
  const Api::Parameters of_it{{"FleetId.1", id}};
  EXPECT_EQ(api.ask("DescribeFleets", of_it, "fleetSet/item/errorSet/item/errorCode"),
            "ReservationCapacityExceeded");
  EXPECT_EQ(api.ask("DescribeFleets", of_it, "fleetSet/item/fleetInstanceSet/item/lifecycle"),
            interruptible_market);
  EXPECT_EQ(api.count("DescribeFleets", {}, "fleetSet/item"), 0u) << "shown to who names it";
  EXPECT_EQ(api.error("ModifyFleet", {{"FleetId", id}, {target + "TotalTargetCapacity", "0"}}),
            "InvalidFleetState");
  ASSERT_TRUE(api.world.kill(api.world.instances(api.now).list().front().id, api.now));
  api.wait(300_s);
  EXPECT_EQ(living(), 1);
}

TEST_F(Reservation, BlockClearsItsInstancesInTheLastHalfHour) {
  const auto block = reserve(block_market, 2, 7200_s);
  const auto name = named(block, block_market);
  ASSERT_EQ(api.error("CreateFleet", fleet(name, "capacity-block", "2")), "");
  api.wait(5390_s);
  EXPECT_EQ(living(), 2);
  EXPECT_EQ(run(name), "InsufficientInstanceCapacity");
  api.wait(20_s);
  for (const Instance& it : api.world.instances(api.now).list())
    ASSERT_TRUE(api.world.kill(it.id, api.now));
  api.wait(60_s);
  EXPECT_EQ(run(name), "InsufficientInstanceCapacity") << "free, but about to end";
  EXPECT_EQ(shown(block, "state"), "active");
  api.wait(1800_s);
  EXPECT_EQ(shown(block, "state"), "expired");
  EXPECT_EQ(run(name), "InsufficientInstanceCapacity");
}

TEST_F(Reservation, BlockHasRoomAgainMinutesAfterAnInstanceEnded) {
  const auto name = named(reserve(block_market, 1, 7200_s), block_market);
  ASSERT_EQ(run(name), "");
  api.wait(60_s);
  const auto one = api.world.instances(api.now).list().front().id;
  ASSERT_EQ(api.error("TerminateInstances", {{"InstanceId.1", one.str()}}), "");
  api.wait(110_s);
  EXPECT_EQ(run(name), "InsufficientInstanceCapacity") << "it is shutting down still";
  api.wait(200_s);
  EXPECT_EQ(run(name), "");
}

TEST_F(Reservation, BlockLeavesNoneAliveAtItsEnd) {
  ASSERT_EQ(api.error("CreateFleet", fleet(named(reserve(block_market, 2, 7200_s), block_market),
                                           "capacity-block", "2")),
            "");
  api.wait(7200_s);
  EXPECT_EQ(living(), 0);
}

TEST_F(Reservation, OwnerTakesInstancesBackTwoMinutesLater) {
  const auto lent = reserve(interruptible_market, 3);
  const auto name = named(lent, interruptible_market);
  ASSERT_EQ(api.error("CreateFleet", fleet(name, "reserved-capacity", "3")), "");
  api.wait(60_s);
  const auto source = shown(lent, "interruptionInfo/sourceCapacityReservationId");
  const std::string of_source = "interruptibleCapacityAllocation/";
  EXPECT_EQ(shown(source, of_source + "status"), "active");
  ASSERT_TRUE(api.world.reclaim(lent, 1, 120_s, false, api.now));
  EXPECT_EQ(shown(source, of_source + "status"), "updating");
  EXPECT_EQ(shown(source, of_source + "targetInstanceCount"), "1");
  EXPECT_EQ(shown(lent, "totalInstanceCount"), "3");
  EXPECT_EQ(run(name), "ReservationCapacityExceeded");
  for (const Instance& it : api.world.instances(api.now).list())
    EXPECT_FALSE(it.notice) << "no page of AWS's says that the metadata has it";
  api.wait(119_s);
  EXPECT_EQ(living(), 3);
  api.wait(2_s);
  EXPECT_EQ(living(), 1);
  EXPECT_EQ(shown(source, of_source + "status"), "active");
  EXPECT_FALSE(api.world.reclaim(lent, 1, 120_s, false, api.now));
}

TEST_F(Reservation, NoticeIsInTheMetadataWhereTheHostSaysSo) {
  const auto lent = reserve(interruptible_market, 1);
  ASSERT_EQ(run(named(lent, interruptible_market)), "");
  ASSERT_TRUE(api.world.reclaim(lent, 0, 120_s, true, api.now));
  EXPECT_TRUE(api.world.instances(api.now).list().front().notice);
}

TEST_F(Reservation, BlockThatHasNotBegunTakesNobody) {
  CapacityReservation it{.market = block_market,
                         .type = InstanceType("g5.xlarge"),
                         .zone = Zone("us-west-2a"),
                         .begins = api.now + 600_s,
                         .ends = api.now + 7200_s};
  const auto block = *api.world.reserve(it, api.now);
  const auto name = named(block, block_market);
  EXPECT_EQ(shown(block, "state"), "scheduled");
  EXPECT_EQ(run(name), "InsufficientInstanceCapacity");
  api.wait(600_s);
  EXPECT_EQ(run(name), "");
}

}  // namespace
}  // namespace spotter::world
