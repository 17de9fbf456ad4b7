// Cases in which a foreign judge found the world kinder than EC2.
#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

struct Judged : testing::Test {
  Judged() {
    config["ImageId"] = "ami-1a2b3c4d";
    config["InstanceType"] = "g5.xlarge";
    template_id = api.ask("CreateLaunchTemplate",
                          {{"LaunchTemplateName", "trainer"},
                           {"LaunchTemplateData.ImageId", "ami-1a2b3c4d"},
                           {"LaunchTemplateData.InstanceType", "g5.xlarge"},
                           {"LaunchTemplateData.KeyName", "mine"}},
                          "launchTemplate/launchTemplateId");
  }
  std::string run(Api::Parameters more) {
    more.insert(config.begin(), config.end());
    more["MinCount"] = more["MaxCount"] = "1";
    return api.ask("RunInstances", more, "instancesSet/item/instanceId");
  }
  std::string refused(Api::Parameters more) {
    more.insert(config.begin(), config.end());
    more["MinCount"] = more["MaxCount"] = "1";
    return api.error("RunInstances", more);
  }
  Api::Parameters fleet(Api::Parameters more) {
    const std::string template_at = "LaunchTemplateConfigs.1.LaunchTemplateSpecification.";
    more[template_at + "LaunchTemplateName"] = "trainer";
    more[template_at + "Version"] = "1";
    more.emplace("TargetCapacitySpecification.TotalTargetCapacity", "1");
    more.emplace("TargetCapacitySpecification.DefaultTargetCapacityType", "spot");
    return more;
  }
  std::string request(const std::string& path) {
    return api.ask("DescribeSpotInstanceRequests", {}, "spotInstanceRequestSet/item/" + path);
  }
  std::string state_of(const std::string& id) {
    return api.ask("DescribeInstances", {{"InstanceId.1", id}},
                   "reservationSet/item/instancesSet/item/instanceState/name");
  }

  const std::string spot = "InstanceMarketOptions.SpotOptions.";
  Api::Parameters config;
  std::string template_id;
  Api api;
};

TEST_F(Judged, TermsOfASpotRequestAreKeptOrRefused) {
  const Api::Parameters market = {{"InstanceMarketOptions.MarketType", "spot"}};
  const auto with = [&](Api::Parameters more) {
    more.insert(market.begin(), market.end());
    return refused(more);
  };
  EXPECT_EQ(with({{spot + "MaxPrice", "banana"}}), "InvalidParameterValue");
  EXPECT_EQ(with({{spot + "MaxPrice", "-1"}}), "InvalidParameterValue");
  EXPECT_EQ(with({{spot + "SpotInstanceType", "forever"}}), "InvalidParameterValue");
  EXPECT_EQ(with({{spot + "InstanceInterruptionBehavior", "stop"}}), "InvalidParameterCombination");
  EXPECT_EQ(refused({{spot + "MaxPrice", "1"}}), "InvalidParameterCombination");
  EXPECT_EQ(with({{spot + "BlockDurationMinutes", "60"}}), "UnsupportedOperation");
  EXPECT_EQ(with({{spot + "MaxPrice", "1.5"}}), "");
}

TEST_F(Judged, APersistentRequestThatStopsStartsItsInstanceAgain) {
  const std::string id = run({{"InstanceMarketOptions.MarketType", "spot"},
                              {spot + "SpotInstanceType", "persistent"},
                              {spot + "InstanceInterruptionBehavior", "stop"}});
  api.wait(20_s);
  EXPECT_EQ(request("type"), "persistent");
  EXPECT_EQ(request("instanceInterruptionBehavior"), "stop");
  ASSERT_TRUE(api.world.interrupt(InstanceId(id), InterruptionAction::Stop, 10_s, api.now));
  api.wait(30_s);
  EXPECT_EQ(state_of(id), "stopped");
  EXPECT_EQ(request("state"), "disabled");
  api.wait(3600_s);
  EXPECT_EQ(state_of(id), "running");
  EXPECT_EQ(request("state"), "active");
  EXPECT_EQ(api.error("StopInstances", {{"InstanceId.1", id}}), "");
  api.wait(3600_s);
  EXPECT_EQ(state_of(id), "stopped") << "a user stopped it, who starts it";
  EXPECT_EQ(api.error("StartInstances", {{"InstanceId.1", id}}), "");
  api.wait(60_s);
  EXPECT_EQ(state_of(id), "running");
}

TEST_F(Judged, SpotRequestsAreFulfilledCancelledAndAskAgain) {
  const std::string specification = "LaunchSpecification.";
  const auto ask = [&](const char* type) {
    return api.ask("RequestSpotInstances",
                   {{specification + "ImageId", "ami-1a2b3c4d"},
                    {specification + "InstanceType", "g5.xlarge"},
                    {"Type", type}},
                   "spotInstanceRequestSet/item/spotInstanceRequestId");
  };
  const std::string once = ask("one-time");
  EXPECT_EQ(once.rfind("sir-", 0), 0u);
  EXPECT_EQ(request("state"), "open");
  api.wait(60_s);
  EXPECT_EQ(request("state"), "active");
  api.raw("TerminateInstances", {{"InstanceId.1", request("instanceId")}});
  api.wait(600_s);
  EXPECT_EQ(request("state"), "closed");
  EXPECT_EQ(api.all<InstanceStarted>().size(), 1u);
  const std::string always = ask("persistent");
  const Api::Parameters it = {{"SpotInstanceRequestId.1", always}};
  api.wait(60_s);
  const char* instance = "spotInstanceRequestSet/item/instanceId";
  api.raw("TerminateInstances",
          {{"InstanceId.1", api.ask("DescribeSpotInstanceRequests", it, instance)}});
  api.wait(600_s);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 3u);
  EXPECT_EQ(api.ask("CancelSpotInstanceRequests", it, "spotInstanceRequestSet/item/state"),
            "cancelled");
  api.raw("TerminateInstances",
          {{"InstanceId.1", api.ask("DescribeSpotInstanceRequests", it, instance)}});
  api.wait(600_s);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 3u);
  EXPECT_EQ(api.ask("DescribeSpotInstanceRequests", it, "spotInstanceRequestSet/item/state"),
            "cancelled");
}

TEST_F(Judged, AFleetReplacesWhatGotARebalanceRecommendation) {
  const std::string rebalance = "SpotOptions.MaintenanceStrategies.CapacityRebalance.";
  EXPECT_EQ(api.error("CreateFleet", fleet({{rebalance + "ReplacementStrategy", "wait"}})),
            "InvalidParameterValue");
  EXPECT_EQ(api.error("CreateFleet",
                      fleet({{"Type", "request"}, {rebalance + "ReplacementStrategy", "launch"}})),
            "InvalidParameterCombination");
  api.raw("CreateFleet", fleet({{rebalance + "ReplacementStrategy", "launch-before-terminate"},
                                {rebalance + "TerminationDelay", "120"}}));
  api.wait(30_s);
  const InstanceId first = api.all<InstanceStarted>().at(0).id;
  ASSERT_TRUE(api.world.rebalance(first, api.now));
  api.wait(60_s);
  EXPECT_EQ(api.all<InstanceStarted>().size(), 2u);
  EXPECT_EQ(state_of(first.str()), "running");
  api.wait(120_s);
  EXPECT_EQ(state_of(first.str()), "terminated");
  EXPECT_EQ(api.all<InstanceStarted>().size(), 2u);
}

TEST_F(Judged, FleetsHaveStrategiesThatThereAreAndPrioritiesAmongThem) {
  const auto by = [&](const char* strategy) {
    return api.error("CreateFleet", fleet({{"SpotOptions.AllocationStrategy", strategy}}));
  };
  EXPECT_EQ(by("cheapest"), "InvalidParameterValue");
  EXPECT_EQ(by("price-capacity-optimized"), "");
  const std::string config = "SpotFleetRequestConfig.";
  EXPECT_EQ(api.spot_fleet({{config + "AllocationStrategy", "cheapest"}}), "");
  EXPECT_NE(api.spot_fleet({{config + "AllocationStrategy", "priceCapacityOptimized"}}), "");
  const std::string overrides = "LaunchTemplateConfigs.1.Overrides.";
  api.raw("CreateFleet",
          fleet({{"SpotOptions.AllocationStrategy", "capacity-optimized-prioritized"},
                 {"TargetCapacitySpecification.TotalTargetCapacity", "8"},
                 {overrides + "1.AvailabilityZone", "us-west-2a"},
                 {overrides + "1.Priority", "2"},
                 {overrides + "2.AvailabilityZoneId", "usw2-az3"},
                 {overrides + "2.Priority", "1"}}));
  api.wait(60_s);
  int preferred = 0;
  for (const auto& it : api.all<InstanceStarted>()) preferred += it.zone == Zone("us-west-2c");
  EXPECT_GE(preferred, 8);
}

TEST_F(Judged, AnInstantFleetIsDeletedWithItsInstances) {
  const std::string id = api.ask("CreateFleet", fleet({{"Type", "instant"}}), "fleetId");
  const auto remove = [&](const char* terminate, const char* path) {
    return api.ask("DeleteFleets", {{"FleetId.1", id}, {"TerminateInstances", terminate}}, path);
  };
  EXPECT_EQ(remove("false", "unsuccessfulFleetDeletionSet/item/error/code"),
            "fleetNotInDeletableState");
  EXPECT_EQ(remove("true", "successfulFleetDeletionSet/item/fleetId"), id);
}

TEST_F(Judged, AVersionHasWhatItsSourceHasAndVersionsAreFoundWithoutAnId) {
  const auto version = [&](const char* source) {
    return api.raw("CreateLaunchTemplateVersion", {{"LaunchTemplateId", template_id},
                                                   {"SourceVersion", source},
                                                   {"LaunchTemplateData.ImageId", "ami-2"}});
  };
  EXPECT_EQ(version("7").status, 400);
  version("1");
  const std::string item = "launchTemplateVersionSet/item/launchTemplateData/";
  const Api::Parameters latest = {{"LaunchTemplateVersion.1", "$Latest"}};
  EXPECT_EQ(api.ask("DescribeLaunchTemplateVersions", latest, item + "keyName"), "mine");
  EXPECT_EQ(api.ask("DescribeLaunchTemplateVersions", latest, item + "imageId"), "ami-2");
  EXPECT_EQ(api.error("DescribeLaunchTemplateVersions", {{"LaunchTemplateVersion.1", "1"}}),
            "InvalidParameterCombination");
  EXPECT_EQ(api.count("DescribeLaunchTemplateVersions",
                      {{"LaunchTemplateId", template_id}, {"MinVersion", "2"}}, item + "imageId"),
            1u);
}

TEST_F(Judged, AnIdOfAnotherFormIsMalformed) {
  const std::vector<std::array<std::string, 4>> cases = {
      {"DescribeInstances", "InstanceId.1", "i-xyz", "InvalidInstanceID.Malformed"},
      {"DescribeVolumes", "VolumeId.1", "vol-xyz", "InvalidVolumeID.Malformed"},
      {"DeleteSnapshot", "SnapshotId", "snap-123", "InvalidSnapshotID.Malformed"},
      {"DescribeFleets", "FleetId.1", "fleet-1", "InvalidFleetId.Malformed"},
      {"DescribeSecurityGroups", "GroupId.1", "sg-near", "InvalidGroupId.Malformed"},
      {"DescribeInstances", "InstanceId.1", "i-0123456789abcdef0", "InvalidInstanceID.NotFound"}};
  for (const auto& [action, name, id, code] : cases)
    EXPECT_EQ(api.error(action, {{name, id}}), code) << id;
}

TEST_F(Judged, ATokenMeansOneTemplate) {
  const Api::Parameters call = {{"LaunchTemplateName", "again"},
                                {"LaunchTemplateData.ImageId", "ami-1a2b3c4d"},
                                {"ClientToken", "t"}};
  const char* id = "launchTemplate/launchTemplateId";
  const std::string made = api.ask("CreateLaunchTemplate", call, id);
  EXPECT_EQ(api.ask("CreateLaunchTemplate", call, id), made);
  auto other = call;
  other["LaunchTemplateData.ImageId"] = "ami-2";
  EXPECT_EQ(api.error("CreateLaunchTemplate", other), "IdempotentParameterMismatch");
  const std::string instance = run({{"ClientToken", "t"}});
  EXPECT_EQ(run({{"ClientToken", "t"}}), instance);
  EXPECT_EQ(refused({{"ClientToken", "t"}, {"KeyName", "mine"}}), "IdempotentParameterMismatch");
}

TEST_F(Judged, AnInstanceComesWithTheVolumesThatItsLaunchNames) {
  const std::string disk = "BlockDeviceMapping.";
  EXPECT_EQ(refused({{disk + "1.DeviceName", "/dev/xvda"}, {disk + "1.Ebs.VolumeSize", "4"}}),
            "InvalidBlockDeviceMapping");
  const std::string id = run({{disk + "1.DeviceName", "/dev/xvda"},
                              {disk + "1.Ebs.VolumeSize", "50"},
                              {disk + "1.Ebs.VolumeType", "gp3"},
                              {disk + "2.DeviceName", "/dev/sdf"},
                              {disk + "2.Ebs.VolumeSize", "20"},
                              {disk + "2.Ebs.DeleteOnTermination", "false"},
                              {"TagSpecification.1.ResourceType", "volume"},
                              {"TagSpecification.1.Tag.1.Key", "job"},
                              {"TagSpecification.1.Tag.1.Value", "mnist"}});
  api.wait(60_s);
  const Api::Parameters of_job = {{"Filter.1.Name", "tag:job"}, {"Filter.1.Value.1", "mnist"}};
  const auto volumes = [&](const char* path) {
    return api.count("DescribeVolumes", of_job, std::string("volumeSet/item") + path);
  };
  EXPECT_EQ(volumes("/attachmentSet/item[status='attached']"), 2u);
  ASSERT_EQ(api.all<DeviceAttached>().size(), 1u) << "its own disk is the host's affair";
  EXPECT_EQ(api.all<DeviceAttached>()[0].device, "/dev/sdf");
  EXPECT_EQ(api.count("DescribeInstances", {{"InstanceId.1", id}},
                      "reservationSet/item/instancesSet/item/blockDeviceMapping/item"),
            2u);
  api.raw("TerminateInstances", {{"InstanceId.1", id}});
  api.wait(600_s);
  EXPECT_EQ(volumes(""), 1u);
  EXPECT_EQ(volumes("[status='available']"), 1u);
}

TEST_F(Judged, WhatALaunchAsksForBesidesIsShownAndKept) {
  const std::string id = run({{"Monitoring.Enabled", "true"},
                              {"DisableApiTermination", "true"},
                              {"MetadataOptions.HttpEndpoint", "disabled"},
                              {"NetworkInterface.1.DeviceIndex", "0"},
                              {"NetworkInterface.1.AssociatePublicIpAddress", "true"}});
  api.wait(60_s);
  const auto shown = [&](const std::string& path) {
    return api.ask("DescribeInstances", {{"InstanceId.1", id}},
                   "reservationSet/item/instancesSet/item/" + path);
  };
  EXPECT_EQ(shown("monitoring/state"), "enabled");
  EXPECT_EQ(shown("ipAddress").rfind("203.0.113.", 0), 0u);
  EXPECT_EQ(api.world.metadata(InstanceId(id), {"GET", "/latest/meta-data/", {}}, api.now).status,
            403);
  EXPECT_EQ(api.error("TerminateInstances", {{"InstanceId.1", id}}), "OperationNotPermitted");
  const std::string other = run({{"InstanceInitiatedShutdownBehavior", "stop"}});
  api.wait(60_s);
  ASSERT_TRUE(api.world.instances(api.now).halted(InstanceId(other)));
  api.wait(60_s);
  EXPECT_EQ(state_of(other), "stopped");
}

TEST_F(Judged, OnlyRunningInstancesHaveAStatus) {
  const std::string id = run({});
  const auto statuses = [&](Api::Parameters more) {
    return api.count("DescribeInstanceStatus", more, "instanceStatusSet/item/instanceId");
  };
  EXPECT_EQ(statuses({}), 0u);
  EXPECT_EQ(statuses({{"IncludeAllInstances", "true"}}), 1u);
  api.wait(60_s);
  EXPECT_EQ(statuses({}), 1u);
  for (const char* status : {"initializing", "ok"}) {
    EXPECT_EQ(api.ask("DescribeInstanceStatus", {{"InstanceId.1", id}},
                      "instanceStatusSet/item/instanceStatus/status"),
              status);
    api.wait(60_s);
  }
  api.raw("StopInstances", {{"InstanceId.1", id}});
  api.wait(60_s);
  EXPECT_EQ(state_of(id), "stopped");
  EXPECT_EQ(statuses({}), 0u);
}

TEST(JudgedVolume, HasTheBoundsOfItsType) {
  Api api;
  const auto create = [&](const char* type, const char* size, const char* iops,
                          const char* throughput = "") {
    Api::Parameters call = {
        {"AvailabilityZone", "us-west-2a"}, {"VolumeType", type}, {"Size", size}};
    if (*iops != 0) call["Iops"] = iops;
    if (*throughput != 0) call["Throughput"] = throughput;
    return api.error("CreateVolume", call);
  };
  const std::string wrong = "InvalidParameterValue";
  EXPECT_EQ(create("gp3", "65536", "80000", "2000"), "");
  EXPECT_EQ(create("gp3", "65537", ""), wrong);
  EXPECT_EQ(create("gp3", "1", "3000"), "") << "its baseline";
  for (const char* iops : {"2999", "80001"}) EXPECT_EQ(create("gp3", "1000", iops), wrong) << iops;
  EXPECT_EQ(create("gp3", "8", "4001"), wrong) << "500 a GiB";
  EXPECT_EQ(create("gp3", "8", "3000", "751"), wrong) << "a quarter of a MiB/s for each";
  EXPECT_EQ(create("gp3", "8", "3000", "750"), "");
  EXPECT_EQ(create("gp3", "8", "", "124"), wrong);
  EXPECT_EQ(create("io1", "100", "5001"), wrong) << "50 a GiB";
  EXPECT_EQ(create("io1", "100", "5000"), "");
  EXPECT_EQ(create("io1", "10000", "64001"), wrong);
  EXPECT_EQ(create("io2", "100", "100001"), wrong) << "1,000 a GiB";
  EXPECT_EQ(create("io2", "256", "256000"), "");
  EXPECT_EQ(create("io2", "4", "99"), wrong);
  EXPECT_EQ(create("io2", "300", "256001"), wrong);
}

TEST(JudgedVolume, IsEncryptedWithTheAccountsKeyAndAttachedOnce) {
  Api api;
  const Api::Parameters call = {
      {"AvailabilityZone", "us-west-2a"}, {"Size", "8"}, {"Encrypted", "true"}};
  EXPECT_EQ(api.ask("CreateVolume", call, "kmsKeyId").rfind("arn:aws:kms:us-west-2:", 0), 0u);
  for (const auto& [type, code] : {std::pair("gp3", "InvalidParameterCombination"),
                                   std::pair("io2", "UnsupportedOperation")}) {
    auto shared = call;
    shared["VolumeType"] = type;
    if (std::string_view(type) == "io2") shared["Iops"] = "100";
    shared["MultiAttachEnabled"] = "true";
    EXPECT_EQ(api.error("CreateVolume", shared), code) << type;
  }
}

TEST(JudgedVolume, IsModifiedWhileItIsInUse) {
  Api api;
  const std::string id = api.attached_volume(api.instance());
  const auto modify = [&](const char* name, const char* value) {
    return api.error("ModifyVolume", {{"VolumeId", id}, {name, value}});
  };
  EXPECT_EQ(modify("Size", "7"), "InvalidParameterValue");
  EXPECT_EQ(modify("Iops", "80000"), "InvalidParameterValue");
  EXPECT_EQ(modify("Size", "16"), "");
  EXPECT_EQ(modify("Size", "17"), "IncorrectModificationState");
  api.wait(60_s);
  EXPECT_EQ(api.ask("DescribeVolumes", {}, "volumeSet/item/size"), "16");
  EXPECT_EQ(api.ask("DescribeVolumesModifications", {{"VolumeId.1", id}},
                    "volumeModificationSet/item/modificationState"),
            "completed");
  ASSERT_EQ(api.all<VolumeGrown>().size(), 1u);
  EXPECT_EQ(api.all<VolumeGrown>()[0].gibibytes, 16u);
}

TEST(JudgedVolume, ItsSnapshotCanBeCopied) {
  Api api;
  const std::string from =
      api.ask("CreateSnapshot", {{"VolumeId", api.volume()}, {"Description", "one"}}, "snapshotId");
  const Api::Parameters call = {{"SourceRegion", "us-west-2"}, {"SourceSnapshotId", from}};
  EXPECT_EQ(api.error("CopySnapshot", call), "IncorrectState");
  api.wait(60_s);
  const std::string copy = api.ask("CopySnapshot", call, "snapshotId");
  api.raw("DeleteSnapshot", {{"SnapshotId", from}});
  api.wait(60_s);
  EXPECT_EQ(api.ask("DescribeSnapshots", {{"SnapshotId.1", copy}}, "snapshotSet/item/status"),
            "completed");
  ASSERT_EQ(api.all<SnapshotCopied>().size(), 1u);
  auto away = call;
  away["SourceRegion"] = "eu-central-1";
  EXPECT_EQ(api.error("CopySnapshot", away), "UnsupportedOperation");
}

}  // namespace
}  // namespace spotter::world
