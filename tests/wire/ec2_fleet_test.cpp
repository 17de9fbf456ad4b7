// Fleets, prices and groups: answers in the form of the API references' examples.
#include <gtest/gtest.h>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {
namespace {

std::string fleet_answer(const std::string& action, const std::string& content) {
  return "<" + action + "Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r" +
         "</requestId>" + content + "</" + action + "Response>";
}

TEST(FleetAnswer, SeesTheFailureInsideASuccessfulCancellation) {
  const auto outcome = decode<CancelSpotFleetRequests>(fleet_answer("CancelSpotFleetRequests", R"(
    <unsuccessfulFleetRequestSet><item><error><code>fleetRequestIdDoesNotExist</code>
      <message>no such fleet</message></error><spotFleetRequestId>sfr-2</spotFleetRequestId></item>
    </unsuccessfulFleetRequestSet>
    <successfulFleetRequestSet><item><spotFleetRequestId>sfr-1</spotFleetRequestId>
      <currentSpotFleetRequestState>cancelled_terminating</currentSpotFleetRequestState>
      <previousSpotFleetRequestState>active</previousSpotFleetRequestState></item>
    </successfulFleetRequestSet>)"));
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_EQ(outcome->size(), 1u);
  EXPECT_EQ(outcome->at(0).id, FleetId("sfr-2"));
  EXPECT_EQ(outcome->at(0).code, "fleetRequestIdDoesNotExist");
}

TEST(FleetAnswer, SeesTheFailureInsideASuccessfulDeletion) {
  const auto outcome = decode<DeleteFleets>(fleet_answer("DeleteFleets", R"(
    <unsuccessfulFleetDeletionSet><item><error><code>fleetNotInDeletableState</code>
      <message>no</message></error><fleetId>fleet-2</fleetId></item></unsuccessfulFleetDeletionSet>
    <successfulFleetDeletionSet><item><fleetId>fleet-1</fleetId>
      <currentFleetState>deleted-running</currentFleetState>
      <previousFleetState>active</previousFleetState></item></successfulFleetDeletionSet>)"));
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_EQ(outcome->size(), 1u);
  EXPECT_EQ(outcome->at(0).code, "fleetNotInDeletableState");
}

TEST(FleetAnswer, SeesTheErrorsInsideASuccessfulCreation) {
  const std::string error =
      "<item><errorCode>InsufficientInstanceCapacity</errorCode><errorMessage>There is none."
      "</errorMessage><lifecycle>spot</lifecycle></item>";
  const auto none = decode_created_fleet(fleet_answer(
      "CreateFleet", "<fleetId>fleet-1</fleetId><errorSet>" + error + error + "</errorSet>"));
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ(none->id, FleetId("fleet-1"));
  EXPECT_EQ(none->instances, 0u);
  EXPECT_EQ(none->errors, "InsufficientInstanceCapacity: There is none.") << "once";
  const auto one = decode_created_fleet(fleet_answer("CreateFleet", R"(
    <fleetId>fleet-1</fleetId><errorSet/><fleetInstanceSet><item><instanceIds><item>i-1</item>
    </instanceIds></item></fleetInstanceSet>)"));
  EXPECT_EQ(one->instances, 1u);
  EXPECT_EQ(one->errors, "");
}

TEST(FleetAnswer, TakesSilenceForNoCancellation) {
  EXPECT_FALSE(decode<DeleteFleets>(fleet_answer("DeleteFleets", "")));
  EXPECT_FALSE(decode<CancelSpotFleetRequests>(
      fleet_answer("CancelSpotFleetRequests", "<successfulFleetRequestSet/>")));
}

TEST(FleetAnswer, ReadsBothKindsOfFleet) {
  const auto spot = decode<DescribeSpotFleetRequests>(fleet_answer("DescribeSpotFleetRequests", R"(
    <spotFleetRequestConfigSet><item><spotFleetRequestId>sfr-1</spotFleetRequestId>
      <spotFleetRequestState>active</spotFleetRequestState><spotFleetRequestConfig>
      <targetCapacity>1</targetCapacity><fulfilledCapacity>1.0</fulfilledCapacity>
      <onDemandTargetCapacity>1</onDemandTargetCapacity>
      <type>maintain</type></spotFleetRequestConfig></item></spotFleetRequestConfigSet>)"));
  ASSERT_TRUE(spot) << spot.error().message;
  EXPECT_EQ(spot->items.at(0).state, FleetState::Active);
  EXPECT_EQ(spot->items.at(0).target_capacity, 1);
  EXPECT_EQ(spot->items.at(0).on_demand, 1);
  const auto fleet = decode<DescribeFleets>(fleet_answer("DescribeFleets", R"(
    <fleetSet><item><fleetId>fleet-1</fleetId><fleetState>deleted_terminating</fleetState>
      <fulfilledCapacity>0.0</fulfilledCapacity><type>maintain</type>
      <targetCapacitySpecification><totalTargetCapacity>2</totalTargetCapacity>
      <onDemandTargetCapacity>2</onDemandTargetCapacity>
      </targetCapacitySpecification></item></fleetSet><nextToken>t</nextToken>)"));
  ASSERT_TRUE(fleet) << fleet.error().message;
  EXPECT_EQ(fleet->items.at(0).state, FleetState::CancelledTerminating);
  EXPECT_EQ(fleet->items.at(0).target_capacity, 2);
  EXPECT_EQ(fleet->items.at(0).on_demand, 2);
  EXPECT_EQ(fleet->next_token, "t");
}

TEST(FleetAnswer, ReadsWhichTemplateItLaunchesBy) {
  const std::string configs = R"(<launchTemplateConfigs><item><launchTemplateSpecification>
      <launchTemplateId>lt-1</launchTemplateId><version>3</version></launchTemplateSpecification>
      <overrides><item><instanceType>g5.xlarge</instanceType></item></overrides></item>
      </launchTemplateConfigs>)";
  const auto spot = decode<DescribeSpotFleetRequests>(
      fleet_answer("DescribeSpotFleetRequests",
                   "<spotFleetRequestConfigSet><item><spotFleetRequestId>sfr-1</spotFleetRequestId>"
                   "<spotFleetRequestState>active</spotFleetRequestState><spotFleetRequestConfig>"
                   "<targetCapacity>1</targetCapacity>" +
                       configs + "</spotFleetRequestConfig></item></spotFleetRequestConfigSet>"));
  ASSERT_TRUE(spot) << spot.error().message;
  EXPECT_EQ(spot->items.at(0).launch_template, (TemplateInUse{"lt-1", "3"}));
  const std::string fleet =
      "<fleetSet><item><fleetId>fleet-1</fleetId><fleetState>active</fleetState>"
      "<targetCapacitySpecification><totalTargetCapacity>1</totalTargetCapacity>"
      "</targetCapacitySpecification>";
  const auto read = [&](const std::string& more) {
    return decode<DescribeFleets>(
               fleet_answer("DescribeFleets", fleet + more + "</item></fleetSet>"))
        ->items.at(0)
        .launch_template;
  };
  EXPECT_EQ(read(configs), (TemplateInUse{"lt-1", "3"}));
  EXPECT_EQ(read(""), TemplateInUse{});
}

TEST(FleetAnswer, ReadsPrices) {
  const auto prices = decode<DescribeSpotPriceHistory>(fleet_answer("DescribeSpotPriceHistory", R"(
    <spotPriceHistorySet><item><instanceType>p3.2xlarge</instanceType>
      <productDescription>Linux/UNIX</productDescription><spotPrice>0.918000</spotPrice>
      <timestamp>2026-11-21T10:15:30.000Z</timestamp>
      <availabilityZone>us-west-2a</availabilityZone></item></spotPriceHistorySet><nextToken/>)"));
  ASSERT_TRUE(prices) << prices.error().message;
  EXPECT_DOUBLE_EQ(prices->items.at(0).dollars_per_hour, 0.918);
  EXPECT_TRUE(prices->next_token.empty());
}

std::string group(const std::string& desired, const std::string& more) {
  return "<member><AutoScalingGroupName>g</AutoScalingGroupName><DesiredCapacity>" + desired +
         "</DesiredCapacity><CreatedTime>2026-11-21T10:15:30.000Z</CreatedTime>" + more +
         "<Tags><member><ResourceId>g</ResourceId><Key>spotter:job</Key><Value>mnist</Value>"
         "<PropagateAtLaunch>true</PropagateAtLaunch></member></Tags></member>";
}

Result<Page<FleetStatus>> groups(const std::string& members) {
  return decode<DescribeAutoScalingGroups>(
      "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups>" +
      members +
      "</AutoScalingGroups><NextToken>t</NextToken></DescribeAutoScalingGroupsResult>"
      "</DescribeAutoScalingGroupsResponse>");
}

TEST(FleetAnswer, ReadsWhatAGroupIsUpTo) {
  const std::string one = "<Instances><member><InstanceId>i-1</InstanceId></member></Instances>";
  const std::string all = "<SuspendedProcesses/>";
  const std::string no_launch =
      "<SuspendedProcesses><member><ProcessName>Launch</ProcessName></member></SuspendedProcesses>";
  const std::vector<std::pair<std::string, FleetState>> samples = {
      {group("1", one + all), FleetState::Active},
      {group("1", "<Instances/>" + all), FleetState::Active},
      {group("1", one + no_launch), FleetState::CancelledRunning},
      {group("0", one + all), FleetState::CancelledTerminating},
      {group("0", "<Instances/>" + all), FleetState::Cancelled},
      {group("1", "<Status>Delete in progress</Status>" + one + all),
       FleetState::CancelledTerminating}};
  for (const auto& [xml, state] : samples) {
    const auto read = groups(xml);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->items.at(0).state, state) << xml;
    EXPECT_EQ(read->items.at(0).id, FleetId("g"));
    EXPECT_EQ(read->items.at(0).tags.at("spotter:job"), "mnist");
    EXPECT_EQ(read->next_token, "t");
  }
  const auto by = groups(group("1", one + all + R"(<MixedInstancesPolicy><LaunchTemplate>
      <LaunchTemplateSpecification><LaunchTemplateId>lt-1</LaunchTemplateId><Version>3</Version>
      </LaunchTemplateSpecification></LaunchTemplate></MixedInstancesPolicy>)"));
  ASSERT_TRUE(by) << by.error().message;
  EXPECT_EQ(by->items.at(0).launch_template, (TemplateInUse{"lt-1", "3"}));
  EXPECT_FALSE(groups(group("1", one))) << "what is suspended is needed";
}

TEST(FleetAnswer, TakesAutoScalingsEmptyAnswer) {
  EXPECT_TRUE(decode<SetDesiredCapacity>(
      "<SetDesiredCapacityResponse xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\">"
      "<ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></"
      "SetDesiredCapacityResponse>"));
  EXPECT_FALSE(decode<SetDesiredCapacity>("<ErrorResponse/>"));
}

}  // namespace
}  // namespace spotter::wire
