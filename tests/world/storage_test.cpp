#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

TEST(Volume, BecomesAvailableAfterAWhileAndIsAttachedToAnInstanceOfItsZone) {
  Api api;
  const std::string id =
      api.ask("CreateVolume", {{"AvailabilityZone", "us-west-2a"}, {"Size", "8"}}, "volumeId");
  EXPECT_EQ(id.size(), std::string("vol-0123456789abcdef0").size());
  EXPECT_EQ(api.volume_state(id), "creating");
  api.wait(10_s);
  EXPECT_EQ(api.volume_state(id), "available");
  const std::string here = api.instance("us-west-2a"), there = api.instance("us-west-2b");

  EXPECT_EQ(
      api.error("AttachVolume", {{"VolumeId", id}, {"InstanceId", there}, {"Device", "/dev/sdf"}}),
      "InvalidVolume.ZoneMismatch");
  EXPECT_EQ(api.ask("AttachVolume",
                    {{"VolumeId", id}, {"InstanceId", here}, {"Device", "/dev/sdf"}}, "status"),
            "attaching");
  EXPECT_TRUE(api.all<DeviceAttached>().empty());
  api.wait(4_s);
  ASSERT_EQ(api.all<DeviceAttached>().size(), 1u);
  EXPECT_EQ(api.all<DeviceAttached>()[0].device, "/dev/sdf");
  EXPECT_EQ(api.ask("DescribeVolumes",
                    {{"Filter.1.Name", "attachment.instance-id"}, {"Filter.1.Value.1", here}},
                    "volumeSet/item/attachmentSet/item/status"),
            "attached");
}

TEST(Volume, InUseIsNeitherDeletedNorAttachedTwice) {
  Api api;
  const std::string holder = api.instance(), other = api.instance();
  const std::string id = api.attached_volume(holder);
  EXPECT_EQ(api.error("DeleteVolume", {{"VolumeId", id}}), "VolumeInUse");
  EXPECT_EQ(
      api.error("AttachVolume", {{"VolumeId", id}, {"InstanceId", other}, {"Device", "/dev/sdf"}}),
      "VolumeInUse");
  EXPECT_EQ(api.ask("DetachVolume", {{"VolumeId", id}}, "status"), "detaching");
  api.wait(4_s);
  EXPECT_EQ(api.ask("DeleteVolume", {{"VolumeId", id}}, "return"), "true");
  EXPECT_EQ(api.error("DescribeVolumes", {{"VolumeId.1", id}}), "InvalidVolume.NotFound");
}

// The agent whose deletion succeeds decides which copy follows the volume.
TEST(Volume, IsDeletedOnce) {
  Api api;
  const std::string id = api.volume();
  EXPECT_EQ(api.ask("DeleteVolume", {{"VolumeId", id}}, "return"), "true");
  EXPECT_EQ(api.error("DeleteVolume", {{"VolumeId", id}}), "InvalidVolume.NotFound");
}

TEST(Volume, DetachWaitsForTheUnmountUnlessForced) {
  Api api;
  const std::string id = api.attached_volume(api.instance());
  api.world.set_mounted(VolumeId(id), true, api.now);
  EXPECT_EQ(api.ask("DetachVolume", {{"VolumeId", id}}, "status"), "busy");
  api.wait(600_s);
  EXPECT_EQ(api.volume_state(id), "in-use");
  api.world.set_mounted(VolumeId(id), false, api.now);
  api.wait(4_s);
  EXPECT_EQ(api.volume_state(id), "available");
}

TEST(Volume, AMountDuringADetachHoldsItUp) {
  Api api;
  const std::string id = api.attached_volume(api.instance());
  EXPECT_EQ(api.ask("DetachVolume", {{"VolumeId", id}}, "status"), "detaching");
  api.world.set_mounted(VolumeId(id), true, api.now);
  api.wait(600_s);
  EXPECT_EQ(api.volume_state(id), "in-use");
  api.world.set_mounted(VolumeId(id), false, api.now);
  api.wait(4_s);
  EXPECT_EQ(api.volume_state(id), "available");
}

TEST(Volume, NeverAppearsOnAMachineThatIsGoingAndIsReleasedWhenItIsGone) {
  Api api;
  const std::string holder = api.instance(), id = api.volume();
  api.raw("AttachVolume", {{"VolumeId", id}, {"InstanceId", holder}, {"Device", "/dev/sdf"}});
  ASSERT_TRUE(api.world.kill(InstanceId(holder), api.now));
  api.wait(30_s);
  EXPECT_TRUE(api.all<DeviceAttached>().empty());
  EXPECT_TRUE(api.all<DeviceDetached>().empty());
  EXPECT_EQ(api.volume_state(id), "available");
}

TEST(Volume, ItsDeviceMayComeLateUnderAnotherNameOrNotAtAll) {
  Api api;
  const std::string holder = api.instance(), id = api.volume();
  ASSERT_TRUE(api.world.fault("device-late", {{"by", "20s"}}, api.now));
  ASSERT_TRUE(api.world.fault("device-by-name", {}, api.now));
  api.raw("AttachVolume", {{"VolumeId", id}, {"InstanceId", holder}, {"Device", "/dev/sdf"}});
  api.wait(10_s);
  EXPECT_EQ(api.ask("DescribeVolumes", {}, "volumeSet/item/attachmentSet/item/status"), "attached");
  EXPECT_TRUE(api.all<DeviceAttached>().empty());
  api.raw("DetachVolume", {{"VolumeId", id}});
  api.wait(30_s);
  EXPECT_TRUE(api.all<DeviceAttached>().empty());
  EXPECT_TRUE(api.all<DeviceDetached>().empty());

  api.raw("AttachVolume", {{"VolumeId", id}, {"InstanceId", holder}, {"Device", "/dev/sdf"}});
  api.wait(30_s);
  ASSERT_EQ(api.all<DeviceAttached>().size(), 1u);
  EXPECT_TRUE(api.all<DeviceAttached>()[0].by_name);
}

TEST(Volume, TheSameClientTokenMeansTheSameVolume) {
  Api api;
  Api::Parameters call = {
      {"AvailabilityZone", "us-west-2a"}, {"Size", "8"}, {"ClientToken", "once"}};
  const std::string first = api.ask("CreateVolume", call, "volumeId");
  EXPECT_EQ(api.ask("CreateVolume", call, "volumeId"), first);
  EXPECT_EQ(api.count("DescribeVolumes", {}, "volumeSet/item"), 1u);
  call["Size"] = "9";
  EXPECT_EQ(api.error("CreateVolume", call), "IdempotentParameterMismatch");
}

TEST(Volume, OfASnapshotMayBeInitializedAtARateFrom100To300) {
  Api api;
  Api::Parameters call = {{"AvailabilityZone", "us-west-2a"}, {"Size", "8"}};
  const std::string source = api.ask("CreateVolume", call, "volumeId");
  call["VolumeInitializationRate"] = "200";
  EXPECT_EQ(api.error("CreateVolume", call), "InvalidParameterCombination");
  api.wait(10_s);
  call["SnapshotId"] = api.ask("CreateSnapshot", {{"VolumeId", source}}, "snapshotId");
  api.wait(60_s);
  EXPECT_NE(api.ask("CreateVolume", call, "volumeId"), "");
  for (const char* wrong : {"99", "301", "fast"}) {
    call["VolumeInitializationRate"] = wrong;
    EXPECT_EQ(api.error("CreateVolume", call), "InvalidParameterValue") << wrong;
  }
}

TEST(Volume, EncryptedWithAForbiddenKeyVanishesAfterA200) {
  Api api;
  ASSERT_TRUE(api.world.fault("key-forbidden", {}, api.now));
  const Api::Parameters call = {{"AvailabilityZone", "us-west-2a"},
                                {"Size", "8"},
                                {"Encrypted", "true"},
                                {"ClientToken", "sealed"}};
  const std::string id = api.ask("CreateVolume", call, "volumeId");
  EXPECT_NE(id, "");
  api.wait(1_s);
  EXPECT_EQ(api.error("DescribeVolumes", {{"VolumeId.1", id}}), "InvalidVolume.NotFound");
  EXPECT_EQ(api.error("CreateVolume", call), "IdempotentParameterMismatch");
}

TEST(Volume, IsUnknownForAWhileWhereTheWorldIsEventuallyConsistent) {
  Settings settings;
  settings.consistency_lag = Duration{30000};
  Api api(settings);
  int unknown = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string id =
        api.ask("CreateVolume", {{"AvailabilityZone", "us-west-2a"}, {"Size", "8"}}, "volumeId");
    unknown += api.error("DescribeVolumes", {{"VolumeId.1", id}}) == "InvalidVolume.NotFound";
  }
  EXPECT_GT(unknown, 5);
  api.wait(90_s);
  EXPECT_EQ(api.count("DescribeVolumes", {}, "volumeSet/item[status='available']"), 10u);
}

TEST(Snapshot, HoldsTheContentAsOfItsCallAndCompletesLater) {
  Api api;
  const std::string id = api.attached_volume(api.instance());
  api.occurred.clear();
  const std::string snapshot = api.ask("CreateSnapshot", {{"VolumeId", id}}, "snapshotId");
  api.raw("DetachVolume", {{"VolumeId", id}});
  EXPECT_EQ(
      api.error("CreateVolume", {{"AvailabilityZone", "us-west-2b"}, {"SnapshotId", snapshot}}),
      "IncorrectState");
  api.wait(10_s);
  ASSERT_EQ(api.occurred.size(), 2u);
  EXPECT_EQ(std::get<SnapshotTaken>(api.occurred[0]).id, SnapshotId(snapshot));
  EXPECT_EQ(std::get<DeviceDetached>(api.occurred[1]).volume, VolumeId(id));
  EXPECT_EQ(api.ask("DescribeSnapshots", {{"Owner.1", "self"}, {"SnapshotId.1", snapshot}},
                    "snapshotSet/item/progress"),
            "100%");
  EXPECT_EQ(api.ask("CreateVolume", {{"AvailabilityZone", "us-west-2b"}, {"SnapshotId", snapshot}},
                    "size"),
            "8");
  api.wait(1_s);
  EXPECT_EQ(api.all<VolumeMade>().back().from, SnapshotId(snapshot));
}

TEST(Snapshot, FivePendingOfOneVolumeAreTheMostDeletedOnesCount) {
  Api api;
  ASSERT_TRUE(api.world.fault("snapshot-takes", {{"time", "1h"}}, api.now));
  const std::string id = api.volume();
  for (int i = 0; i < 5; ++i) {
    const std::string made = api.ask("CreateSnapshot", {{"VolumeId", id}}, "snapshotId");
    EXPECT_EQ(api.error("CreateSnapshot", {{"VolumeId", id}}),
              i < 4 ? "SnapshotCreationPerVolumeRateExceeded" : "ConcurrentSnapshotLimitExceeded");
    api.raw("DeleteSnapshot", {{"SnapshotId", made}});
    api.wait(15_s);
  }
  EXPECT_EQ(api.error("CreateSnapshot", {{"VolumeId", id}}), "ConcurrentSnapshotLimitExceeded");
}

TEST(Query, FiltersByTagsWildcardsAndPagesAndRefusesUnknownFilters) {
  Api api;
  const std::string a = api.volume(), b = api.volume("us-west-2b"), c = api.volume();
  api.raw("CreateTags", {{"ResourceId.1", a},
                         {"ResourceId.2", b},
                         {"Tag.1.Key", "Name"},
                         {"Tag.1.Value", "mnist <&> volume"}});
  const auto found = [&](const std::string& name, const std::string& value) {
    return api.count("DescribeVolumes", {{"Filter.1.Name", name}, {"Filter.1.Value.1", value}},
                     "volumeSet/item");
  };
  EXPECT_EQ(found("tag:Name", "mnist <&> volume"), 2u);
  EXPECT_EQ(found("tag:Name", "mnist*"), 2u);
  EXPECT_EQ(found("tag-key", "N?me"), 2u);
  EXPECT_EQ(found("tag-key", "N\\?me"), 0u);
  EXPECT_EQ(found("tag:Name", "mnist\\*"), 0u);
  api.raw("CreateTags", {{"ResourceId.1", c}, {"Tag.1.Key", "odd"}, {"Tag.1.Value", "a*b?c\\d"}});
  EXPECT_EQ(found("tag:odd", "a\\*b\\?c\\\\d"), 1u);
  EXPECT_EQ(found("tag:odd", "*\\?c*"), 1u);
  EXPECT_EQ(found("availability-zone", "us-west-2b"), 1u);
  EXPECT_EQ(found("status", "in-use"), 0u);
  EXPECT_EQ(
      api.error("DescribeVolumes", {{"Filter.1.Name", "colour"}, {"Filter.1.Value.1", "red"}}),
      "InvalidParameterValue");
  EXPECT_EQ(api.ask("DescribeTags", {{"Filter.1.Name", "resource-id"}, {"Filter.1.Value.1", a}},
                    "tagSet/item/value"),
            "mnist <&> volume");
  for (int i = 0; i < 3; ++i) api.volume();  // "between 5 and 1000" a page
  EXPECT_EQ(api.count("DescribeVolumes", {{"MaxResults", "5"}}, "volumeSet/item"), 5u);
  const std::string next = api.document.select_node("/*/nextToken").node().text().get();
  EXPECT_EQ(
      api.count("DescribeVolumes", {{"MaxResults", "5"}, {"NextToken", next}}, "volumeSet/item"),
      1u);
  api.raw("DeleteTags", {{"ResourceId.1", a}, {"Tag.1.Key", "Name"}});
  EXPECT_EQ(found("tag-key", "Name"), 1u);
}

TEST(Query, AResourceHasFiftyTags) {
  Api api;
  const std::string volume = api.volume();
  const auto tag = [&](int number) {
    return api.error("CreateTags", {{"ResourceId.1", volume},
                                    {"Tag.1.Key", "key" + std::to_string(number)},
                                    {"Tag.1.Value", std::to_string(number)}});
  };
  for (int number = 0; number < 50; ++number) ASSERT_EQ(tag(number), "");
  EXPECT_EQ(tag(50), "TagLimitExceeded");
  EXPECT_EQ(tag(49), "") << "one that it has may change";
}

TEST(Query, SaysWhatIsWrong) {
  Api api;
  EXPECT_EQ(api.error("MakeCoffee"), "InvalidAction");
  EXPECT_EQ(api.error(""), "MissingAction");
  EXPECT_EQ(api.error("CreateVolume", {{"Size", "8"}}), "MissingParameter");
  EXPECT_EQ(api.error("CreateVolume", {{"AvailabilityZone", "mars-1a"}, {"Size", "8"}}),
            "InvalidZone.NotFound");
  EXPECT_EQ(api.error("CreateVolume", {{"AvailabilityZone", "us-west-2a"}, {"Size", "eight"}}),
            "InvalidParameterValue");
  EXPECT_EQ(api.error("DescribeVolumes", {{"VolumeId.1", "i-1"}}), "InvalidParameterValue");
  EXPECT_EQ(api.error("DescribeInstances", {{"InstanceId.1", "i-0123456789abcdef0"}}),
            "InvalidInstanceID.NotFound");
  const Reply dry = api.raw("CreateVolume", {{"DryRun", "true"}});
  EXPECT_EQ(dry.status, 412);
  EXPECT_NE(dry.body.find("<Code>DryRunOperation</Code>"), std::string::npos);
}

TEST(Faults, AreThrottledDeniedDelayedLostOrCarriedOut) {
  Api api;
  const Api::Parameters make = {{"AvailabilityZone", "us-west-2a"}, {"Size", "8"}};
  api.world.throttle("*", Duration{5000}, api.now);
  EXPECT_EQ(api.raw("DescribeVolumes").status, 503);
  api.wait(5_s);
  EXPECT_EQ(api.raw("DescribeVolumes").status, 200);
  api.world.deny("CreateVolume", true);
  EXPECT_EQ(api.error("CreateVolume", make), "UnauthorizedOperation");
  api.world.deny("CreateVolume", false);
  api.world.set_latency("CreateVolume", Duration{250});
  api.world.fail_next("CreateVolume", 1, "timeout-lost");
  EXPECT_TRUE(api.raw("CreateVolume", make).drop);
  EXPECT_EQ(api.count("DescribeVolumes", {}, "volumeSet/item"), 0u);
  api.world.fail_next("CreateVolume", 1, "timeout-carried-out");
  const Reply lost = api.raw("CreateVolume", make);
  EXPECT_TRUE(lost.drop);
  EXPECT_EQ(lost.delay, Duration{250});
  EXPECT_EQ(api.count("DescribeVolumes", {}, "volumeSet/item"), 1u);
  EXPECT_FALSE(api.world.fault("throttle", {{"for", "soon"}}, api.now));
  EXPECT_FALSE(api.world.fault("earthquake", {}, api.now));
}

}  // namespace
}  // namespace spotter::world
