#include "agent/aws/formats/services.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

TEST(Efs, AsksForOneFileSystem) {
  const HttpCall call = encode(DescribeFileSystems{"fs-0123"});
  EXPECT_EQ(call.service + ":" + call.action, "elasticfilesystem:DescribeFileSystems");
  EXPECT_EQ(call.method, "GET");
  EXPECT_EQ(call.target, "/2015-02-01/file-systems?FileSystemId=fs-0123");
}

TEST(Efs, TheNextPageIsAskedForByItsMarker) {
  EXPECT_EQ(encode(DescribeMountTargets{"fs-0123", "a/b="}).target,
            "/2015-02-01/mount-targets?FileSystemId=fs-0123&Marker=a%2Fb%3D");
}

TEST(Efs, AFileSystemOfOneZone) {
  const auto page = decode<DescribeFileSystems>(
      R"({"FileSystems":[{"FileSystemId":"fs-1","LifeCycleState":"available",
          "AvailabilityZoneName":"us-west-2a","SizeInBytes":{"Value":6144}},
         {"FileSystemId":"fs-2","LifeCycleState":"creating"}],"NextMarker":"m"})");
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->items.size(), 2U);
  EXPECT_EQ(page->items[0].zone, Zone("us-west-2a"));
  EXPECT_EQ(page->items[1].state, "creating");
  EXPECT_TRUE(page->items[1].zone.empty());
  EXPECT_EQ(page->next_token, "m");
}

TEST(Efs, AMountTargetHasAZone) {
  const auto page = decode<DescribeMountTargets>(
      R"({"MountTargets":[{"MountTargetId":"fsmt-1","FileSystemId":"fs-1","SubnetId":"subnet-1",
          "LifeCycleState":"creating","AvailabilityZoneName":"us-west-2b"}]})");
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->items.size(), 1U);
  EXPECT_EQ(page->items[0].id, "fsmt-1");
  EXPECT_EQ(page->items[0].zone, Zone("us-west-2b"));
  EXPECT_TRUE(page->next_token.empty());
}

TEST(Efs, StrangeAnswersAreErrors) {
  for (const char* wrong :
       {"", "[]", "{}", R"({"MountTargets":7})", R"({"MountTargets":[7]})",
        R"({"MountTargets":[{"MountTargetId":"fsmt-1","LifeCycleState":"available"}]})"})
    EXPECT_FALSE(decode<DescribeMountTargets>(wrong)) << wrong;
  EXPECT_FALSE(decode<DescribeFileSystems>(R"({"FileSystems":[{"FileSystemId":"fs-1"}]})"));
}

}  // namespace
}  // namespace spotter::wire
