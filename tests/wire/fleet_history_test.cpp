// The histories of fleets, in the form of the API references' examples.
#include <gtest/gtest.h>

#include "agent/aws/formats/fleet_history.hpp"

namespace spotter::wire {
namespace {

constexpr WallTime since{std::chrono::seconds(1'700'000'000)};

TEST(FleetHistory, IsAskedForByTheNameOfEachKind) {
  const Query spot = describe_history({FleetKind::SpotFleet, FleetId("sfr-1")}, since, "");
  EXPECT_EQ(form_body(spot),
            "Action=DescribeSpotFleetRequestHistory&SpotFleetRequestId=sfr-1&"
            "StartTime=2023-11-14T22%3A13%3A20Z&Version=2016-11-15");
  const Query fleet = describe_history({FleetKind::Ec2Fleet, FleetId("fleet-1")}, since, "more");
  EXPECT_EQ(form_body(fleet),
            "Action=DescribeFleetHistory&FleetId=fleet-1&NextToken=more&"
            "StartTime=2023-11-14T22%3A13%3A20Z&Version=2016-11-15");
  const Query group = describe_history({FleetKind::AutoScalingGroup, FleetId("g")}, since, "");
  EXPECT_EQ(group.service, "autoscaling");
  EXPECT_EQ(form_body(group),
            "Action=DescribeScalingActivities&AutoScalingGroupName=g&Version=2011-01-01");
}

std::string events(const std::string& action, const std::string& rows) {
  return "<" + action + "Response xmlns='http://ec2.amazonaws.com/doc/2016-11-15/'>" +
         "<requestId>r</requestId><historyRecordSet>" + rows + "</historyRecordSet>" +
         "<nextToken>more</nextToken></" + action + "Response>";
}

TEST(FleetHistory, OfAFleetHasItsErrorsAlone) {
  const auto spot = decode_history(
      events("DescribeSpotFleetRequestHistory",
             "<item><timestamp>2015-05-26T23:17:20.697Z</timestamp>"
             "<eventInformation><eventSubType>submitted</eventSubType></eventInformation>"
             "<eventType>fleetRequestChange</eventType></item>"
             "<item><timestamp>2015-05-26T23:18:00Z</timestamp><eventInformation>"
             "<eventSubType>spotFleetRequestConfigurationInvalid</eventSubType>"
             "<eventDescription>the image is gone</eventDescription></eventInformation>"
             "<eventType>error</eventType></item>"
             "<item><timestamp>2015-05-26T23:19:00Z</timestamp><eventInformation>"
             "<eventSubType>launchSpecUnusable</eventSubType></eventInformation>"
             "<eventType>information</eventType></item>"),
      FleetKind::SpotFleet);
  ASSERT_TRUE(spot) << spot.error().message;
  EXPECT_EQ(spot->next_token, "more");
  ASSERT_EQ(spot->items.size(), 2u);
  EXPECT_EQ(spot->items[0].why, "spotFleetRequestConfigurationInvalid: the image is gone");
  EXPECT_EQ(to_rfc3339(spot->items[0].at), "2015-05-26T23:18:00Z");
  EXPECT_EQ(spot->items[1].why, "launchSpecUnusable");
  const auto fleet =
      decode_history(events("DescribeFleetHistory",
                            "<item><timestamp>2015-05-26T23:18:00Z</timestamp><eventInformation>"
                            "<eventSubType>InsufficientInstanceCapacity</eventSubType>"
                            "<eventDescription>none left</eventDescription></eventInformation>"
                            "<eventType>service-error</eventType></item>"),
                     FleetKind::Ec2Fleet);
  ASSERT_TRUE(fleet) << fleet.error().message;
  EXPECT_EQ(fleet->items.at(0).why, "InsufficientInstanceCapacity: none left");
  EXPECT_FALSE(decode_history(events("DescribeFleets", ""), FleetKind::Ec2Fleet));
}

TEST(FleetHistory, OfAGroupHasItsFailedActivitiesAlone) {
  const auto group = decode_history(
      "<DescribeScalingActivitiesResponse "
      "xmlns='https://autoscaling.amazonaws.com/doc/2011-01-01/'>"
      "<DescribeScalingActivitiesResult><Activities>"
      "<member><ActivityId>a</ActivityId><Description>Launching a new EC2 instance: "
      "i-1</Description>"
      "<StartTime>2024-01-01T10:00:00Z</StartTime>"
      "<StatusCode>Successful</StatusCode><StatusMessage></StatusMessage></member>"
      "<member><ActivityId>c</ActivityId><Description>Terminating EC2 instance: i-1</Description>"
      "<StartTime>2024-01-01T12:00:00Z</StartTime>"
      "<StatusCode>Failed</StatusCode><StatusMessage>no</StatusMessage></member>"
      "<member><ActivityId>b</ActivityId><Description>Launching a new EC2 instance</Description>"
      "<StartTime>2024-01-01T11:00:00Z</StartTime>"
      "<StatusCode>Failed</StatusCode><StatusMessage>no capacity</StatusMessage></member>"
      "</Activities><NextToken>older</NextToken></DescribeScalingActivitiesResult></"
      "DescribeScalingActivitiesResponse>",
      FleetKind::AutoScalingGroup);
  ASSERT_TRUE(group) << group.error().message;
  ASSERT_EQ(group->items.size(), 1u);
  EXPECT_EQ(group->items[0].why, "no capacity");
  EXPECT_EQ(group->next_token, "");
}

}  // namespace
}  // namespace spotter::wire
