// Subnets from which a machine reaches nothing, before it costs; and what EC2 does not say is open.
#include "agent/launch/machines.hpp"

#include <gtest/gtest.h>

namespace spotter::launch {
namespace {

using Verdict = Finding::Verdict;

const std::vector<Needed> both = {{"S3", "s3", true}, {"EC2", "ec2", true}};

struct Vpc {
  Network network{.region = Region("us-west-2")};

  // A subnet with a public address, whose VPC's main table leads to the internet.
  Vpc() {
    network.subnets.push_back({.id = "subnet-1",
                               .zone = Zone("us-west-2a"),
                               .free_addresses = 9,
                               .vpc = "vpc-1",
                               .gives_public_addresses = true});
    network.tables.emplace();
    network.tables->push_back({.id = "rtb-1", .vpc = "vpc-1", .is_main = true});
    route("172.31.0.0/16", "local");
    route("0.0.0.0/0", "igw-1");
    network.endpoints.emplace();
    network.nats.emplace();
    network.acls.emplace();
    network.groups = {{.id = "sg-1", .vpc = "vpc-1", .https_to = {"0.0.0.0/0"}}};
  }
  wire::Subnet& subnet() { return network.subnets.front(); }
  std::vector<wire::Route>& routes() { return network.tables->front().routes; }
  void route(const char* to, const char* through, bool gone = false) {
    network.tables->front().routes.push_back({to, through, gone});
  }
  void lead_by(const char* through, const char* to = "0.0.0.0/0", bool gone = false) {
    routes().resize(1);
    route(to, through, gone);
  }
  void endpoint(const char* service, const char* type, const char* policy = "") {
    network.endpoints->push_back({.id = std::string("vpce-") + service,
                                  .vpc = "vpc-1",
                                  .type = type,
                                  .service = std::string("com.amazonaws.us-west-2.") + service,
                                  .state = "available",
                                  .policy = policy,
                                  .has_private_names = true});
    if (std::string(type) == "Gateway") network.endpoints->back().route_tables = {"rtb-1"};
  }

  std::string said(Verdict verdict, const std::vector<Needed>& needed = both) const {
    std::string text;
    for (const Finding& it : judge_network(network, needed))
      if (it.verdict == verdict)
        text += (text.empty() ? "" : "\n") + it.what + (it.advice.empty() ? "" : ": " + it.advice);
    return text;
  }
  bool fails() const { return !said(Verdict::Fail).empty(); }
  bool warns() const { return !fails() && !said(Verdict::Warn).empty(); }
  bool is_well() const { return !fails() && !warns(); }
};

TEST(Network, ADefaultSubnetIsWell) {
  Vpc story;
  EXPECT_EQ(story.said(Verdict::Ok), "by its routes a machine in subnet-1 reaches S3 and EC2");
  EXPECT_TRUE(story.is_well());
}

TEST(Network, NeedsAPublicAddressForAnInternetGateway) {
  Vpc story;
  story.subnet().gives_public_addresses = false;
  EXPECT_EQ(
      story.said(Verdict::Fail),
      "a machine in subnet-1 (us-west-2a) does not reach S3 or EC2: rtb-1 leads out by igw-1, "
      "and a machine gets no public address: name other subnets in launch.subnets, or: aws "
      "ec2 modify-subnet-attribute --subnet-id subnet-1 --map-public-ip-on-launch");
  story.subnet().gives_public_addresses = true;
  story.network.has_several_interfaces = true;
  EXPECT_TRUE(story.fails()) << "as with EFA on several cards";
}

TEST(Network, WithoutARouteOnlyEndpointsLeadOut) {
  Vpc story;
  story.routes().resize(1);
  EXPECT_EQ(
      story.said(Verdict::Fail),
      "a machine in subnet-1 (us-west-2a) does not reach S3 or EC2: rtb-1 has no route to the "
      "internet: name other subnets in launch.subnets, or give this one a way: a NAT gateway; "
      "aws ec2 create-vpc-endpoint --vpc-id vpc-1 --service-name com.amazonaws.us-west-2.s3 "
      "--route-table-ids rtb-1; aws ec2 create-vpc-endpoint --vpc-id vpc-1 --service-name "
      "com.amazonaws.us-west-2.ec2 --vpc-endpoint-type Interface --subnet-ids subnet-1");
  story.endpoint("s3", "Gateway");
  EXPECT_NE(story.said(Verdict::Fail).find("does not reach EC2: "), std::string::npos);
  story.endpoint("ec2", "Interface");
  EXPECT_TRUE(story.is_well());
  story.network.endpoints->back().has_private_names = false;
  EXPECT_TRUE(story.fails()) << "EC2's own name does not lead there";
  story.network.endpoints->back().has_private_names = true;
  story.network.endpoints->front().route_tables = {"rtb-2"};
  EXPECT_TRUE(story.fails()) << "another table's gateway";
  story.network.endpoints->front().route_tables = {"rtb-1"};
  story.network.endpoints->front().state = "pending";
  EXPECT_TRUE(story.fails());
}

TEST(Network, AWarningIsEnoughForWhatTheJobDoesWithout) {
  Vpc story;
  story.routes().resize(1);
  story.endpoint("ec2", "Interface");
  EXPECT_EQ(story.said(Verdict::Fail, {{"EC2", "ec2", true}, {"STS", "sts", false}}), "");
  EXPECT_NE(story.said(Verdict::Warn, {{"EC2", "ec2", true}, {"STS", "sts", false}})
                .find("does not reach STS"),
            std::string::npos);
}

TEST(Network, ANatGatewayLeadsOutWhileItWorks) {
  Vpc story;
  story.subnet().gives_public_addresses = false;
  story.lead_by("nat-1");
  story.network.nats = {{"nat-1", "available", true}};
  EXPECT_TRUE(story.is_well());
  story.network.nats = {{"nat-1", "failed", true}};
  EXPECT_TRUE(story.fails());
  story.network.nats = {{"nat-1", "pending", true}};
  EXPECT_TRUE(story.warns());
  story.network.nats = {{"nat-1", "available", false}};
  EXPECT_TRUE(story.warns()) << "a private one may lead to another that is public";
  story.network.nats.reset();
  EXPECT_TRUE(story.warns());
  story.lead_by("nat-1", "0.0.0.0/0", true);
  EXPECT_TRUE(story.fails()) << "it is gone";
}

TEST(Network, WhatIsNotSeenIsOpen) {
  Vpc story;
  story.lead_by("tgw-1");
  EXPECT_EQ(story.said(Verdict::Warn),
            "subnet-1 (us-west-2a): where tgw-1 leads is not to be seen: whether a machine there "
            "reaches S3 and EC2 is open");
  story.lead_by("pcx-1", "10.0.0.0/8");
  EXPECT_TRUE(story.warns()) << "perhaps to a proxy";
  story.routes().resize(1);
  story.network.endpoints.reset();
  EXPECT_TRUE(story.warns()) << "there may be endpoints";
  story.network.tables.reset();
  EXPECT_TRUE(story.warns());
  story = {};
  story.network.tables->front().is_main = false;
  EXPECT_TRUE(story.warns()) << "its table was not shown";
}

TEST(Network, IPv6AloneIsNoWay) {
  Vpc story;
  story.lead_by("eigw-1", "::/0");
  EXPECT_NE(
      story.said(Verdict::Fail)
          .find("rtb-1 has no route to the internet, but for IPv6, by which AWS is not asked"),
      std::string::npos);
  story = {};
  story.subnet().is_ipv6_only = true;
  EXPECT_EQ(story.said(Verdict::Fail),
            "subnet-1 (us-west-2a) has addresses of IPv6 alone: machines there ask the metadata "
            "service, EC2 and S3 by IPv4: name subnets with IPv4 addresses in launch.subnets");
}

TEST(Network, ASubnetsOwnTableCounts) {
  Vpc story;
  story.network.tables->push_back({.id = "rtb-2", .vpc = "vpc-1", .subnets = {"subnet-1"}});
  EXPECT_NE(story.said(Verdict::Fail).find("rtb-2 has no route"), std::string::npos);
}

TEST(Network, AnEndpointsOwnPolicyIsNamed) {
  Vpc story;
  story.endpoint("s3", "Gateway",
                 R"({"Statement":{"Effect":"Allow","Action":"*","Principal":"*","Resource":"*"}})");
  EXPECT_TRUE(story.is_well());
  story.network.endpoints->front().policy =
      R"({"Statement":[{"Effect":"Allow","Action":"s3:Get*","Principal":"*","Resource":"*"}]})";
  EXPECT_NE(story.said(Verdict::Warn).find("vpce-s3, the endpoint of S3, has a policy of its own"),
            std::string::npos);
  story.network.endpoints->front().policy = "{";
  EXPECT_TRUE(story.warns());
}

TEST(Network, AnEndpointsOwnGroupsLetTheMachinesIn) {
  Vpc story;
  story.endpoint("ec2", "Interface");
  story.network.endpoints->front().groups = {"sg-8", "sg-9"};
  story.network.endpoint_groups = {{.id = "sg-8", .https_from = {"sg-8"}}, {.id = "sg-9"}};
  EXPECT_EQ(story.said(Verdict::Fail),
            "vpce-ec2, the endpoint of EC2, lets no machine of this job in by HTTPS: aws ec2 "
            "authorize-security-group-ingress --group-id sg-8 --protocol tcp --port 443 "
            "--source-group sg-1");
  for (const char* from : {"172.31.0.0/16", "sg-1", "pl-1"}) {
    story.network.endpoint_groups[1].https_from = {from};
    EXPECT_TRUE(story.is_well()) << from;
  }
  story.network.endpoint_groups.pop_back();
  EXPECT_TRUE(story.is_well()) << "what the other lets in was not to be seen";
}

TEST(Network, SecurityGroupsLetOut) {
  Vpc story;
  story.network.groups->front().https_to.clear();
  EXPECT_EQ(story.said(Verdict::Fail),
            "sg-1 lets no machine ask anything by HTTPS: aws ec2 authorize-security-group-egress "
            "--group-id sg-1 --protocol tcp --port 443 --cidr 0.0.0.0/0");
  story.network.groups->push_back({.id = "sg-2", .vpc = "vpc-1", .https_to = {"0.0.0.0/0"}});
  EXPECT_TRUE(story.is_well()) << "a machine has both";
  story.network.groups->back().https_to = {"pl-1"};
  EXPECT_TRUE(story.warns());
  story.network.groups->back().vpc = "vpc-2";
  EXPECT_TRUE(story.fails());
}

TEST(Network, AnAclThatStopsAllIsNamed) {
  Vpc story;
  const auto entry = [](std::uint64_t number, bool out, bool allows) {
    return wire::AclEntry{
        .number = number, .is_out = out, .allows = allows, .protocol = "-1", .block = "0.0.0.0/0"};
  };
  auto& acl = story.network.acls->emplace_back();
  acl = {.id = "acl-1", .subnets = {"subnet-1"}};
  acl.entries = {entry(32767, true, false), entry(100, true, true), entry(100, false, true),
                 entry(32767, false, false)};
  EXPECT_TRUE(story.is_well());
  acl.entries[1].protocol = "6";
  acl.entries[1].least = acl.entries[1].most = 443;
  EXPECT_TRUE(story.is_well());
  acl.entries[1].least = acl.entries[1].most = 80;
  EXPECT_NE(story.said(Verdict::Fail)
                .find("acl-1, the network ACL of subnet-1 (us-west-2a), lets "
                      "no request by HTTPS out"),
            std::string::npos);
  acl.entries[1] = entry(100, true, true);
  acl.entries[2].protocol = "17";
  EXPECT_NE(story.said(Verdict::Fail).find("no answer in"), std::string::npos);
  acl.subnets = {"subnet-2"};
  EXPECT_TRUE(story.is_well());
}

TEST(Network, NeedsWhatTheJobNames) {
  config::Job job;
  job.launch.emplace();
  const auto names = [&] {
    std::string text;
    for (const Needed& it : needed_by(job)) text += it.name + (it.stops ? "! " : " ");
    return text;
  };
  EXPECT_EQ(names(), "EC2! STS ");
  job.launch->package.source = "s3://bucket/packages/";
  job.trainer.role = "instance";
  EXPECT_EQ(names(), "S3! EC2! ");
  job.launch->package.source = "apt";
  job.launch->type = FleetKind::AutoScalingGroup;
  job.code.emplace();
  job.code->repository = "https://example.org/me.git";
  job.trainer.secrets["KEY"] = {config::SecretReference::Kind::Parameter, "/key"};
  EXPECT_EQ(names(), "EC2! Auto Scaling! Systems Manager the code's server apt's servers ");
}

}  // namespace
}  // namespace spotter::launch
