// Things that EC2 refuses, shows late or splits, and a kind fake would not.
#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

constexpr const char* kTags = "reservationSet/item/instancesSet/item/tagSet/item/key";

TEST(Strict, AFleetsTagsComeAfterItsInstance) {
  Settings settings;
  settings.fleet_tags = {5_s, 90_s};
  Api api(settings);
  const std::string fleet = api.spot_fleet();
  while (api.all<InstanceStarted>().empty()) api.wait(1_s);
  const auto by_tag = [&] {
    return api.count(
        "DescribeInstances",
        {{"Filter.1.Name", "tag:aws:ec2spot:fleet-request-id"}, {"Filter.1.Value.1", fleet}},
        "reservationSet/item");
  };
  EXPECT_EQ(by_tag(), 0u);
  EXPECT_EQ(api.count("DescribeInstances", {}, kTags), 0u);
  EXPECT_EQ(
      api.ask("DescribeSpotInstanceRequests", {}, "spotInstanceRequestSet/item/tagSet/item/value"),
      fleet)
      << "as AWS's own user data finds it";
  api.wait(90_s);
  EXPECT_EQ(by_tag(), 1u);
}

TEST(Strict, AParameterThatAnOperationDoesNotKnowIsRefused) {
  Api api;
  EXPECT_EQ(api.error("DescribeVolumes", {{"FilterX.1.Name", "status"}}), "UnknownParameter");
  EXPECT_EQ(api.error("DescribeVolumes", {{"volumeId.1", "vol-1"}}), "UnknownParameter");
  EXPECT_EQ(api.error("ModifySpotFleetRequest", {{"DryRun", "true"}}), "UnknownParameter");
  EXPECT_EQ(api.error("DescribeVolumes", {{"Action", "DescribeVolumes"}}), "");
  const std::string data = "LaunchTemplateData.";
  EXPECT_EQ(api.error("CreateLaunchTemplate",
                      {{"LaunchTemplateName", "a"}, {data + "Placement.Zone", "us-west-2a"}}),
            "UnknownParameter")
      << "nor one that has no such member";
  EXPECT_EQ(api.error("CreateLaunchTemplate",
                      {{"LaunchTemplateName", "a"}, {data + "Placement.Affinity", "host"}}),
            "UnsupportedOperation")
      << "which AWS has";
}

TEST(Strict, AFleetRefusesDisksThatItsInstancesWouldNotHave) {
  Api api;
  const std::string disk = "BlockDeviceMapping.1.DeviceName", data = "LaunchTemplateData.";
  for (const auto& [name, device] : {std::pair{"root", "/dev/xvda"}, {"more", "/dev/sdf"}}) {
    const std::string expected = name == std::string("more") ? "UnsupportedOperation" : "";
    api.raw("CreateLaunchTemplate", {{"LaunchTemplateName", name},
                                     {data + "ImageId", "ami-0123456789abcdef0"},
                                     {data + "InstanceType", "p3.2xlarge"},
                                     {data + disk, device}});
    const std::string template_name = "LaunchTemplateSpecification.LaunchTemplateName";
    const std::string version = "LaunchTemplateSpecification.Version";
    EXPECT_EQ(api.error("CreateFleet", {{"LaunchTemplateConfigs.1." + template_name, name},
                                        {"LaunchTemplateConfigs.1." + version, "1"},
                                        {"TargetCapacitySpecification.TotalTargetCapacity", "1"},
                                        {"Type", "maintain"}}),
              expected);
    const std::string spot = "SpotFleetRequestConfig.", own = spot + "LaunchSpecifications.1.";
    EXPECT_EQ(api.error("RequestSpotFleet",
                        {{spot + "IamFleetRole", "arn:aws:iam::123456789012:role/fleet"},
                         {spot + "TargetCapacity", "1"},
                         {own + "ImageId", "ami-0123456789abcdef0"},
                         {own + "InstanceType", "p3.2xlarge"},
                         {own + disk, device}}),
              expected);
  }
}

TEST(Strict, AVersionOfTheApiThatNeverWasIsRefused) {
  Api api;
  EXPECT_EQ(api.error("DescribeVolumes", {{"Version", "2016-11-15"}}), "");
  EXPECT_EQ(api.error("DescribeVolumes", {{"Version", "2016-11-16"}}), "NoSuchVersion");
}

TEST(Strict, PageSizesHaveBounds) {
  Api api;
  EXPECT_EQ(api.error("DescribeInstances", {{"MaxResults", "4"}}), "InvalidParameterValue");
  EXPECT_EQ(api.error("DescribeInstances", {{"MaxResults", "1001"}}), "InvalidParameterValue");
  EXPECT_EQ(api.error("DescribeLaunchTemplates", {{"MaxResults", "201"}}), "InvalidParameterValue");
  EXPECT_EQ(api.error("DescribeInstances", {{"MaxResults", "5"}, {"InstanceId.1", api.instance()}}),
            "InvalidParameterCombination");
  EXPECT_EQ(api.error("DescribeInstances", {{"MaxResults", "5"}}), "");
}

TEST(Strict, AFleetDoesNotNameOnePoolTwice) {
  Api api;
  const std::string id = api.ask(
      "CreateLaunchTemplate",
      {{"LaunchTemplateName", "t"}, {"LaunchTemplateData.ImageId", "ami-0123456789abcdef0"}},
      "launchTemplate/launchTemplateId");
  const auto create = [&](const char* second) {
    const std::string config = "LaunchTemplateConfigs.1.";
    return api.error("CreateFleet", {{config + "LaunchTemplateSpecification.LaunchTemplateId", id},
                                     {config + "LaunchTemplateSpecification.Version", "1"},
                                     {config + "Overrides.1.InstanceType", "g5.xlarge"},
                                     {config + "Overrides.1.AvailabilityZone", "us-west-2a"},
                                     {config + "Overrides.2.InstanceType", "g5.xlarge"},
                                     {config + "Overrides.2.AvailabilityZone", second},
                                     {"TargetCapacitySpecification.TotalTargetCapacity", "1"}});
  };
  EXPECT_EQ(create("us-west-2a"), "InvalidFleetConfig");
  EXPECT_EQ(create("us-west-2b"), "");
}

TEST(Strict, TagsAreForWhatTheOperationMakes) {
  Api api;
  const auto volume = [&](const char* type) {
    return api.error("CreateVolume", {{"AvailabilityZone", "us-west-2a"},
                                      {"Size", "8"},
                                      {"TagSpecification.1.ResourceType", type},
                                      {"TagSpecification.1.Tag.1.Key", "a"}});
  };
  EXPECT_EQ(volume("volume"), "");
  EXPECT_EQ(volume("instance"), "InvalidParameterValue");
  EXPECT_EQ(volume(""), "InvalidParameterValue");
}

TEST(Strict, EachKindOfMalformedIdHasItsOwnError) {
  Api api;
  const Api::Parameters attach = {
      {"VolumeId", api.volume()}, {"InstanceId", "vol-1"}, {"Device", "/dev/sdf"}};
  EXPECT_EQ(api.error("AttachVolume", attach), "InvalidInstanceID.Malformed");
  EXPECT_EQ(api.error("DeleteVolume", {{"VolumeId", "snap-1"}}), "InvalidParameterValue");
  EXPECT_EQ(api.error("DeleteSnapshot", {{"SnapshotId", "vol-1"}}), "InvalidParameterValue");
  const char* code = "unsuccessfulFleetRequestSet/item/error/code";
  EXPECT_EQ(api.ask("CancelSpotFleetRequests",
                    {{"SpotFleetRequestId.1", "fleet-1"}, {"TerminateInstances", "true"}}, code),
            "fleetRequestIdMalformed");
}

TEST(Strict, WhatBecomesOfExcessIsSpelledByEachKindOfFleet) {
  Api api;
  const auto spot = [&](const char* policy) {
    return api.spot_fleet({{"SpotFleetRequestConfig.ExcessCapacityTerminationPolicy", policy}});
  };
  EXPECT_NE(spot("noTermination"), "");
  EXPECT_NE(spot("NoTermination"), "");
  EXPECT_EQ(spot("no-termination"), "");
  const std::string fleet = spot("NoTermination");
  api.wait(20_s);
  api.raw("ModifySpotFleetRequest", {{"SpotFleetRequestId", fleet}, {"TargetCapacity", "2"}});
  api.wait(20_s);
  api.raw("ModifySpotFleetRequest", {{"SpotFleetRequestId", fleet},
                                     {"TargetCapacity", "0"},
                                     {"ExcessCapacityTerminationPolicy", "NoTermination"}});
  api.wait(60_s);
  EXPECT_EQ(api.count("DescribeSpotFleetInstances", {{"SpotFleetRequestId", fleet}},
                      "activeInstanceSet/item"),
            2u);
}

TEST(Strict, APageMayBeEmptyAndNotTheLast) {
  Settings settings;
  settings.empty_pages = true;
  Api api(settings);
  api.volume();
  EXPECT_EQ(api.count("DescribeVolumes", {}, "volumeSet/item"), 0u);
  const std::string next = api.document.select_node("/*/nextToken").node().text().get();
  EXPECT_EQ(api.count("DescribeVolumes", {{"NextToken", next}}, "volumeSet/item"), 1u);
  bool whole = false, empty = false;
  for (int i = 0; i < 64; ++i) {
    Api other({}, static_cast<std::uint64_t>(i));
    const bool none = other.count("DescribeSpotPriceHistory", {{"InstanceType.1", "g5.xlarge"}},
                                  "spotPriceHistorySet/item") == 0;
    (none ? empty : whole) = true;
  }
  EXPECT_TRUE(whole && empty) << "prices come either way, by the seed";
}

// A group with several types, which launches by CreateFleet.
TEST(Strict, AFleetOfTypeInstantIsShownOnlyByItsIdAndDeletedTwice) {
  Api api;
  api.raw("CreateLaunchTemplate", {{"LaunchTemplateName", "trainer"},
                                   {"LaunchTemplateData.ImageId", "ami-1"},
                                   {"LaunchTemplateData.InstanceType", "g5.xlarge"}});
  const std::string config = "LaunchTemplateConfigs.1.LaunchTemplateSpecification.";
  const std::string id = api.ask("CreateFleet",
                                 {{"Type", "instant"},
                                  {"TargetCapacitySpecification.TotalTargetCapacity", "1"},
                                  {config + "LaunchTemplateName", "trainer"},
                                  {config + "Version", "$Latest"},
                                  {"TagSpecification.1.ResourceType", "instance"},
                                  {"TagSpecification.1.Tag.1.Key", "job"}},
                                 "fleetId");
  EXPECT_EQ(api.count("DescribeFleets", {}, "fleetSet/item"), 0u);
  EXPECT_EQ(api.ask("DescribeFleets", {{"FleetId.1", id}}, "fleetSet/item/type"), "instant");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(api.ask("DeleteFleets", {{"FleetId.1", id}, {"TerminateInstances", "true"}},
                      "successfulFleetDeletionSet/item/fleetId"),
              id);
  }
}

}  // namespace
}  // namespace spotter::world
