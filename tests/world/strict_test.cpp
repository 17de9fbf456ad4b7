// Things that EC2 refuses, shows late or splits, and a kind fake would not.
#include <sstream>

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
                                        {"TargetCapacitySpecification.SpotTargetCapacity", "1"},
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
      {{"LaunchTemplateName", "two"}, {"LaunchTemplateData.ImageId", "ami-0123456789abcdef0"}},
      "launchTemplate/launchTemplateId");
  const auto create = [&](const char* second) {
    const std::string config = "LaunchTemplateConfigs.1.";
    return api.error("CreateFleet", {{config + "LaunchTemplateSpecification.LaunchTemplateId", id},
                                     {config + "LaunchTemplateSpecification.Version", "1"},
                                     {config + "Overrides.1.InstanceType", "g5.xlarge"},
                                     {config + "Overrides.1.AvailabilityZone", "us-west-2a"},
                                     {config + "Overrides.2.InstanceType", "g5.xlarge"},
                                     {config + "Overrides.2.AvailabilityZone", second},
                                     {"TargetCapacitySpecification.SpotTargetCapacity", "1"},
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
                                   {"LaunchTemplateData.ImageId", "ami-1a2b3c4d"},
                                   {"LaunchTemplateData.InstanceType", "g5.xlarge"}});
  const std::string config = "LaunchTemplateConfigs.1.LaunchTemplateSpecification.";
  const std::string id = api.ask("CreateFleet",
                                 {{"Type", "instant"},
                                  {"TargetCapacitySpecification.TotalTargetCapacity", "1"},
                                  {"TargetCapacitySpecification.SpotTargetCapacity", "1"},
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

// Calls as "ACTION&NAME=VALUE&...".
struct Calls {
  Calls() {
    words.emplace_back("$volume", api.volume());
    words.emplace_back("$instance", api.instance());
    for (const char* data : {"ImageId", "InstanceType"})
      trainer["LaunchTemplateData." + std::string(data)] =
          data == std::string("ImageId") ? "ami-1a2b3c4d" : "g5.xlarge";
    trainer["LaunchTemplateName"] = "trainer";
    api.raw("CreateLaunchTemplate", trainer);
  }
  std::string error(std::string call) {
    for (const auto& [name, value] : words)
      for (auto at = call.find(name); at != call.npos; at = call.find(name))
        call.replace(at, std::string(name).size(), value);
    Api::Parameters parameters;
    std::istringstream parts(call);
    std::string action, part;
    std::getline(parts, action, '&');
    while (std::getline(parts, part, '&'))
      parameters[part.substr(0, part.find('='))] = part.substr(part.find('=') + 1);
    return api.error(action, parameters);
  }

  Api api;
  Api::Parameters trainer;
  std::vector<std::pair<const char*, std::string>> words = {
      {"$run", "RunInstances&MinCount=1&MaxCount=1&ImageId=ami-1a2b3c4d&InstanceType=g5.xlarge"},
      {"$spot", "InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice"},
      {"$create", "CreateVolume&AvailabilityZone=us-west-2a&Size=8"},
      {"$fleet", "CreateFleet&$total.DefaultTargetCapacityType=spot&$of.Version=1&$config"},
      {"$config", "$of.LaunchTemplateName=trainer&$total.TotalTargetCapacity"},
      {"$of", "LaunchTemplateConfigs.1.LaunchTemplateSpecification"},
      {"$total", "TargetCapacitySpecification"},
      {"$sfr",
       "RequestSpotFleet&$sf.TargetCapacity=1&$sl.ImageId=ami-1a2b3c4d&"
       "$sl.InstanceType=g5.xlarge&$sf.IamFleetRole=arn:aws:iam::123456789012:role/fleet"},
      {"$sl", "$sf.LaunchSpecifications.1"},
      {"$sf", "SpotFleetRequestConfig"},
      {"$template", "CreateLaunchTemplate&LaunchTemplateData.ImageId=ami-1a2b3c4d"},
      {"$tag", "TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key"},
      {"$rule", "AuthorizeSecurityGroupIngress&GroupName=default&IpPermissions.1.IpProtocol"},
      {"$ranges", "IpPermissions.1.IpRanges.1.CidrIp"},
      {"$256", std::string(256, 'x')}};
};

constexpr std::pair<const char*, const char*> refused_calls[] = {
    {"InvalidParameterValue", "$create&ClientToken=$256"},
    {"InvalidParameterValue", "$create&$tag=$256"},
    {"InvalidParameterValue", "$create&$tag=a&TagSpecification.1.Tag.1.Value=$256x"},
    {"InvalidParameterValue", "$create&$tag=AWS:a"},
    {"InvalidParameterValue", "$create&$tag=a&TagSpecification.1.Tag.2.Key=a"},
    {"InvalidParameterValue", "$create&$tag=a&TagSpecification.2.ResourceType=volume"},
    {"", "$create&$tag=aw&TagSpecification.1.Tag.2.Key=AWS"},
    {"InvalidParameterValue", "CreateTags&ResourceId.1=$volume&Tag.1.Key=AWS:a"},
    {"InvalidID", "CreateTags&ResourceId.1=vol-zz&Tag.1.Key=a"},
    {"UnsupportedOperation", "CreateTags&ResourceId.1=ami-1a2b3c4d&Tag.1.Key=a"},
    {"UnsupportedOperation",
     "DescribeInstances&Filter.1.Name=network-interface.addresses.primary&Filter.1.Value.1=a"},
    {"InvalidParameterValue", "DescribeInstances&Filter.1.Name=banana&Filter.1.Value.1=a"},
    {"", "DescribeInstances&Filter.1.Name=launch-index&Filter.1.Value.1=0"},
    {"InvalidParameterValue", "AttachVolume&VolumeId=$volume&InstanceId=$instance&Device=banana"},
    {"InvalidBlockDeviceMapping", "$run&BlockDeviceMapping.1.DeviceName=banana"},
    {"InvalidSnapshotID.Malformed",
     "$run&BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.SnapshotId=banana"},
    {"InvalidBlockDeviceMapping",
     "$run&BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.VolumeSize=8&"
     "BlockDeviceMapping.2.DeviceName=/dev/sdf&BlockDeviceMapping.2.Ebs.VolumeSize=8"},
    {"InvalidParameterValue", "$run&MetadataOptions.InstanceMetadataTags=banana"},
    {"SpotMaxPriceTooLow", "$run&$spot=0.01"},
    {"InvalidParameterValue", "$run&$spot=nan"},
    {"InvalidParameterValue", "$run&InstanceType=t3.enormous"},
    {"InvalidParameterValue", "$run&InstanceType=banana"},
    {"UnsupportedOperation",
     "$run&TagSpecification.1.ResourceType=network-interface&"
     "TagSpecification.1.Tag.1.Key=a"},
    {"InvalidAMIID.Malformed", "$run&ImageId=ami-banana"},
    {"InvalidSubnetID.NotFound", "$run&SubnetId=subnet-banana"},
    {"InvalidParameterCombination", "$run&IamInstanceProfile.Name=a&IamInstanceProfile.Arn=b"},
    {"InvalidParameterCombination", "$run&SecurityGroup.1=a&SecurityGroupId.1=sg-1a2b3c4d"},
    {"MissingParameter", "RunInstances&ImageId=ami-1a2b3c4d&MinCount=1"},
    {"MissingParameter", "$run&LaunchTemplate.Version=1"},
    {"InvalidLaunchTemplateId.Malformed", "$run&LaunchTemplate.LaunchTemplateId=lt-xx"},
    {"InvalidLaunchTemplateId.VersionNotFound",
     "$run&LaunchTemplate.LaunchTemplateName=trainer&LaunchTemplate.Version=1x"},
    {"InvalidParameterCombination", "DescribeInstanceStatus&InstanceId.1=$instance&MaxResults=10"},
    {"InvalidLaunchTemplateName.MalformedException", "$template&LaunchTemplateName=ab"},
    {"InvalidLaunchTemplateName.MalformedException", "$template&LaunchTemplateName=a b c"},
    {"InvalidParameterValue", "$template&LaunchTemplateName=abc&VersionDescription=$256"},
    {"MissingParameter", "CreateLaunchTemplate&LaunchTemplateName=abc"},
    {"MissingParameter", "DeleteLaunchTemplate"},
    {"InvalidParameterCombination",
     "DeleteLaunchTemplate&LaunchTemplateName=abc&LaunchTemplateId=lt-1a2b3c4d"},
    {"MissingParameter", "CreateFleet&$config=0"},
    {"MissingParameter", "CreateFleet&$config=1&$of.Version=1"},
    {"InvalidParameterValue", "$fleet=1&SpotOptions.AllocationStrategy=capacityOptimized"},
    {"InvalidParameterCombination",
     "$fleet=1&Type=request&SpotOptions.InstanceInterruptionBehavior=stop"},
    {"InvalidParameterValue", "$fleet=1&ValidUntil=2020-01-01T00:00:00Z"},
    {"InvalidParameterValue",
     "$fleet=1&ValidFrom=2036-01-02T00:00:00Z&ValidUntil=2036-01-01T00:00:00Z"},
    {"MaxTargetCapacityExceeded", "$fleet=10001"},
    {"InvalidParameterValue", "$sfr&$sf.AllocationStrategy=capacity-optimized"},
    {"InvalidParameterValue", "$sfr&$sf.Type=instant"},
    {"InvalidSpotFleetRequestConfig", "$sfr&$sf.IamFleetRole=banana"},
    {"InvalidSpotFleetRequestConfig", "$sfr&$sf.$of.LaunchTemplateName=trainer"},
    {"InvalidParameterValue", "DescribeSpotPriceHistory&AvailabilityZone=us-west-2z"},
    {"InvalidParameterValue", "DescribeAvailabilityZones&ZoneName.1=us-west-2z"},
    {"InvalidUserID.Malformed", "DescribeSnapshots&Owner.1=banana"},
    {"InvalidParameterValue", "DescribeVolumesModifications&MaxResults=501"},
    {"InvalidParameterValue", "CreateSnapshot&VolumeId=$volume&Description=$256"},
    {"InvalidParameterValue", "CreateSecurityGroup&GroupName=a&GroupDescription=\u00e9"},
    {"InvalidParameterValue", "$rule=banana&$ranges=10.0.0.0/8"},
    {"InvalidParameterValue", "$rule=tcp&$ranges=10.0.0.0/8"},
    {"InvalidParameterValue", "$rule=-1&$ranges=10.0.0.0/33"},
    {"UnsupportedOperation", "RebootInstances&InstanceId.1=$instance"},
    {"UnsupportedOperation", "DescribeKeyPairs"},
    {"InvalidAction", "DescribeBananas"}};

TEST(Strict, WhatAwsRefusesIsRefusedByItsCode) {
  Calls calls;
  for (const auto& [code, call] : refused_calls) EXPECT_EQ(calls.error(call), code) << call;
  std::string many = "DescribeVolumes&Filter.1.Name=status", tags = "$create&$tag=0";
  for (int i = 1; i <= 201; ++i) many += "&Filter.1.Value." + std::to_string(i) + "=a";
  for (int i = 2; i <= 51; ++i)
    tags += "&TagSpecification.1.Tag." + std::to_string(i) + ".Key=" + std::to_string(i);
  EXPECT_EQ(calls.error(many), "FilterLimitExceeded");
  EXPECT_EQ(calls.error(tags), "TagLimitExceeded");
}

TEST(Strict, AVolumeIsModifiedFourTimesADay) {
  Calls calls;
  for (int i = 0; i < 6; ++i) {
    calls.api.wait(i == 5 ? 86400_s : 3600_s);
    const std::string size = std::to_string(i + 10);
    EXPECT_EQ(calls.error("ModifyVolume&VolumeId=$volume&Size=" + size),
              i == 4 ? "VolumeModificationRateExceeded" : "");
  }
}

TEST(Strict, OneCallMakesOneReservationAndOneEntryOfAFleet) {
  Calls calls;
  Api& api = calls.api;
  EXPECT_EQ(calls.error("$run&MinCount=2&MaxCount=2&ClientToken=t"), "");
  const Api::Parameters two = {{"Filter.1.Name", "client-token"}, {"Filter.1.Value.1", "t"}};
  const std::string instance = "reservationSet/item/instancesSet/item";
  EXPECT_EQ(api.count("DescribeInstances", two, "reservationSet/item"), 1u);
  EXPECT_EQ(api.count("DescribeInstances", two, instance), 2u);
  EXPECT_EQ(api.count("DescribeInstances", two, instance + "[amiLaunchIndex='1']"), 1u);
  const std::string id = api.ask("DescribeInstances", two, instance + "/instanceId");
  EXPECT_EQ(api.count("TerminateInstances", {{"InstanceId.1", id}, {"InstanceId.2", id}},
                      "instancesSet/item"),
            1u);
  const Api::Parameters one = {{"InstanceId.1", id}};
  EXPECT_EQ(api.ask("DescribeInstances", one, instance + "/stateReason/code"),
            "Client.UserInitiatedShutdown");
  EXPECT_TRUE(
      api.ask("DescribeInstances", one, instance + "/reason").starts_with("User initiated ("));
  calls.error(
      "$fleet=2&Type=instant&LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone="
      "us-west-2a&ClientToken=f");
  const std::string of = "fleetInstanceSet/item";
  EXPECT_EQ(api.document.select_nodes(("/*/" + of).c_str()).size(), 1u);
  EXPECT_EQ(api.document.select_nodes(("/*/" + of + "/instanceIds/item").c_str()).size(), 2u);
  const std::string fleet = api.document.select_node("/*/fleetId").node().text().get();
  EXPECT_EQ(calls.error("DescribeFleetInstances&FleetId=" + fleet), "UnsupportedOperation");
}

TEST(Strict, AFleetOfTenThousandTakesNoMinutes) {
  Calls calls;
  EXPECT_EQ(calls.error("$fleet=10000"), "");
  calls.api.wait(60_s);
  EXPECT_EQ(calls.api.all<InstanceStarted>().size(), 10001u) << "with the one before";
}

}  // namespace
}  // namespace spotter::world
