// Security groups and network interfaces with EFA: what EC2 refuses of them.
#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

using Parameters = Api::Parameters;

struct Efa : testing::Test {
  std::string group(const char* name) {
    return api.ask("CreateSecurityGroup", {{"GroupName", name}, {"GroupDescription", "of a test"}},
                   "groupId");
  }
  std::string let(const char* direction, const std::string& group) {
    return api.error("AuthorizeSecurityGroup" + std::string(direction),
                     {{"GroupId", group},
                      {"IpPermissions.1.IpProtocol", "-1"},
                      {"IpPermissions.1.Groups.1.GroupId", group}});
  }
  // With an interface of each of these kinds, on cards 0, 1, ...
  std::string run(const char* type, const std::vector<std::string>& kinds, Parameters more = {}) {
    more.merge(Parameters{{"ImageId", "ami-1a2b3c4d"},
                          {"InstanceType", type},
                          {"MinCount", "1"},
                          {"MaxCount", "1"},
                          {"Placement.AvailabilityZone", "us-west-2a"}});
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const std::string it = "NetworkInterface." + std::to_string(i + 1) + ".";
      more.merge(Parameters{{it + "NetworkCardIndex", std::to_string(i)},
                            {it + "DeviceIndex", "0"},
                            {it + "InterfaceType", kinds[i]},
                            {it + "SecurityGroupId.1", sg}});
    }
    return api.error("RunInstances", more);
  }
  Api api;
  std::string sg = group("near");
};

TEST_F(Efa, ASecurityGroupHasOneNameAndEachRuleOnce) {
  EXPECT_EQ(api.error("CreateSecurityGroup", {{"GroupName", "near"}, {"GroupDescription", "x"}}),
            "InvalidGroup.Duplicate");
  EXPECT_EQ(let("Ingress", sg), "");
  EXPECT_EQ(let("Ingress", sg), "InvalidPermission.Duplicate");
  EXPECT_EQ(let("Egress", sg), "");
  EXPECT_EQ(let("Egress", "sg-0123abcd"), "InvalidGroup.NotFound");
  const std::string rules = "securityGroupInfo/item/ipPermissions";
  EXPECT_EQ(api.count("DescribeSecurityGroups", {{"GroupId.1", sg}}, rules + "/item"), 1u);
  EXPECT_EQ(
      api.ask("DescribeSecurityGroups", {{"GroupId.1", sg}}, rules + "/item/groups/item/groupId"),
      sg);
  EXPECT_EQ(api.count("DescribeSecurityGroups", {{"GroupId.1", sg}}, rules + "Egress/item"), 2u)
      << "one lets everything out to every address";
}

TEST_F(Efa, IsOnlyOnTypesThatHaveIt) {
  EXPECT_EQ(run("g5.xlarge", {"efa"}), "InvalidParameterCombination");
  EXPECT_EQ(run("g5.xlarge", {"interface"}), "");
  EXPECT_EQ(run("p4d.24xlarge", {"efa", "efa-only", "efa-only", "efa-only"}), "");
  EXPECT_EQ(run("p4d.24xlarge", {"efa", "efa-only", "efa-only", "efa-only", "efa-only"}),
            "InvalidParameterValue")
      << "it has four cards";
  EXPECT_EQ(run("p4d.24xlarge", {"efa-only", "efa"}), "InvalidParameterValue");
  EXPECT_EQ(run("p4d.24xlarge", {"efa"},
                {{"NetworkInterface.2.DeviceIndex", "1"},
                 {"NetworkInterface.2.InterfaceType", "efa-only"}}),
            "AttachmentLimitExceeded")
      << "a card has one EFA";
  EXPECT_EQ(run("p5.48xlarge", {"efa"},
                {{"NetworkInterface.2.DeviceIndex", "2"},
                 {"NetworkInterface.2.NetworkCardIndex", "2"},
                 {"NetworkInterface.2.InterfaceType", "efa-only"}}),
            "InvalidParameterValue")
      << "a card of it has two interfaces";
}

TEST_F(Efa, HasGroupsAndSubnetOfItsInterfaces) {
  EXPECT_EQ(run("p4d.24xlarge", {"efa"}, {{"SecurityGroupId.1", sg}}),
            "InvalidParameterCombination");
  EXPECT_EQ(run("p4d.24xlarge", {"efa"}, {{"SubnetId", "subnet-1a2b3c4d"}}),
            "InvalidParameterCombination");
  EXPECT_EQ(run("p4d.24xlarge", {"efa"}, {{"NetworkInterface.1.SecurityGroupId.1", "sg-1a2b3c4d"}}),
            "InvalidGroup.NotFound");
}

TEST_F(Efa, AGroupInUseIsNotDeleted) {
  EXPECT_EQ(run("p4d.24xlarge", {"efa"}), "");
  EXPECT_EQ(api.error("DeleteSecurityGroup", {{"GroupId", sg}}), "DependencyViolation");
  for (const Instance& it : api.world.instances(api.now).list())
    api.raw("TerminateInstances", {{"InstanceId.1", it.id.str()}});
  api.wait(600_s);
  EXPECT_EQ(api.error("DeleteSecurityGroup", {{"GroupId", sg}}), "");
  EXPECT_EQ(api.error("DeleteSecurityGroup", {{"GroupId", sg}}), "InvalidGroup.NotFound");
}

}  // namespace
}  // namespace spotter::world
