// IAM policies: a table of what a statement allows, and calls to EC2 under the agent's own policy.
#include "tests/world/access.hpp"

#include <gtest/gtest.h>

#include "tests/world/ec2_access.hpp"

namespace spotter::world {
namespace {

using Context = std::multimap<std::string, std::string>;

std::string policy(const std::string& statement) {
  return R"({"Version": "2012-10-17", "Statement": [)" + statement + "]}";
}

bool allows(const std::string& condition, const Context& context) {
  const auto parsed = Policy::parse(policy(
      R"({"Effect": "Allow", "Action": "s:A", "Resource": "*", "Condition": )" + condition + "}"));
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  return parsed && parsed->judge({"s:A", "*", context}) == Policy::Verdict::Allowed;
}

struct ConditionCase {
  const char* condition;
  Context context;
  bool allowed;
};

TEST(Policies, ConditionsAreJudgedAsIamDocumentsThem) {
  const std::vector<ConditionCase> cases = {
      {R"({"StringEquals": {"k": "a"}})", {{"k", "a"}}, true},
      {R"({"StringEquals": {"K": ["b", "a"]}})", {{"k", "a"}}, true},
      {R"({"StringEquals": {"k": "a"}})", {{"k", "A"}}, false},
      {R"({"StringEquals": {"k": "a*"}})", {{"k", "ab"}}, false},
      {R"({"StringEquals": {"k": "a${*}"}})", {{"k", "a*"}}, true},
      {R"({"StringEquals": {"k": "a"}})", {}, false},
      {R"({"StringNotEquals": {"k": "a"}})", {}, true},
      {R"({"StringNotEquals": {"k": ["a", "b"]}})", {{"k", "b"}}, false},
      {R"({"StringEqualsIgnoreCase": {"k": "a"}})", {{"k", "A"}}, true},
      {R"({"StringLike": {"k": "a*c?"}})", {{"k", "abbcd"}}, true},
      {R"({"StringLike": {"k": "a${*}"}})", {{"k", "ab"}}, false},
      {R"({"StringLike": {"k": "${other}"}})", {{"k", "x"}, {"other", "x"}}, true},
      {R"({"StringLike": {"k": "${other}"}})", {{"k", "x"}}, false},
      {R"({"StringLikeIfExists": {"k": "a"}})", {}, true},
      {R"({"StringLikeIfExists": {"k": "a"}})", {{"k", "b"}}, false},
      {R"({"ArnLike": {"k": "arn:aws:s:*:1:x/*"}})", {{"k", "arn:aws:s:r:1:x/y"}}, true},
      {R"({"Bool": {"k": "true"}})", {{"k", "true"}}, true},
      {R"({"Bool": {"k": true}})", {{"k", "false"}}, false},
      {R"({"Bool": {"k": "true"}})", {}, false},
      {R"({"Null": {"k": "true"}})", {}, true},
      {R"({"Null": {"k": "true"}})", {{"k", "a"}}, false},
      {R"({"Null": {"k": "false"}})", {{"k", "a"}}, true},
      {R"({"ForAllValues:StringEquals": {"k": ["a", "b"]}})", {{"k", "a"}, {"k", "b"}}, true},
      {R"({"ForAllValues:StringEquals": {"k": ["a"]}})", {{"k", "a"}, {"k", "b"}}, false},
      {R"({"ForAllValues:StringEquals": {"k": ["a"]}})", {}, true},
      {R"({"ForAnyValue:StringEquals": {"k": ["a"]}})", {{"k", "a"}, {"k", "b"}}, true},
      {R"({"ForAnyValue:StringEquals": {"k": ["a"]}})", {}, false},
      {R"({"StringEquals": {"k": "a", "l": "b"}})", {{"k", "a"}}, false},
      {R"({"StringEquals": {"k": "a"}, "Null": {"l": "true"}})", {{"k", "a"}}, true},
  };
  for (const auto& it : cases)
    EXPECT_EQ(allows(it.condition, it.context), it.allowed) << it.condition;
}

TEST(Policies, ActionsAndResourcesHaveWildcards) {
  const auto parsed = Policy::parse(policy(
      R"({"Effect": "Allow", "Action": ["ec2:describe*"], "Resource": "arn:aws:ec2:*:1:volume/*"},
         {"Effect": "Deny", "Action": "*", "Resource": "arn:aws:ec2:r:1:volume/vol-2"})"));
  ASSERT_TRUE(parsed);
  using enum Policy::Verdict;
  EXPECT_EQ(parsed->judge({"ec2:DescribeVolumes", "arn:aws:ec2:r:1:volume/vol-1"}), Allowed);
  EXPECT_EQ(parsed->judge({"ec2:DescribeVolumes", "arn:aws:ec2:r:1:volume/vol-2"}), Denied);
  EXPECT_EQ(parsed->judge({"ec2:DescribeVolumes", "arn:aws:ec2:r:2:volume/vol-1"}), NotAllowed);
  EXPECT_EQ(parsed->judge({"ec2:DeleteVolume", "arn:aws:ec2:r:1:volume/vol-1"}), NotAllowed);
}

TEST(Policies, WhatIsNotUnderstoodIsRefused) {
  for (const std::string& wrong :
       {std::string("{"), std::string("[]"), std::string(R"({"Statement": []})"),
        policy(R"({"Effect": "Maybe", "Action": "a:B", "Resource": "*"})"),
        policy(R"({"Effect": "Allow", "Action": "a:B", "Resource": "a", "NotResource": "*"})"),
        policy(R"({"Effect": "Allow", "Action": "a:B", "NotAction": "a:B", "Resource": "*"})"),
        policy(R"({"Effect": "Allow", "Action": "a:B"})"),
        policy(R"({"Effect": "Allow", "Action": [], "Resource": "*"})"),
        policy(R"({"Effect": "Allow", "Action": 7, "Resource": "*"})"),
        policy(R"({"Effect": "Allow", "Action": "a:B", "Resource": "*", "Condition": {
               "NumericLessThan": {"k": "1"}}})"),
        policy(R"({"Effect": "Allow", "Action": "a:B", "Resource": "*", "Condition": [1]})"),
        policy("7")})
    EXPECT_FALSE(Policy::parse(wrong)) << wrong;
}

// An account with a volume of the job, one of somebody else, and an instance of the role.
class UnderAPolicy : public ::testing::Test {
 protected:
  UnderAPolicy() {
    instance = ok("RunInstances",
                  {{"ImageId", "ami-1a2b3c4d"},
                   {"MinCount", "1"},
                   {"MaxCount", "1"},
                   {"IamInstanceProfile.Name", "mine"}},
                  "<instanceId>");
    ours = make_volume("job", "mine");
    theirs = make_volume("job", "other");
    world.advance(now += Duration{60000});
    const auto limited = world.set_policies("me", {policy(R"(
      {"Effect": "Allow", "Action": "ec2:DescribeVolumes", "Resource": "*"},
      {"Effect": "Allow", "Action": ["ec2:AttachVolume", "ec2:CreateSnapshot", "ec2:DeleteVolume"],
       "Resource": "arn:aws:ec2:us-west-2:123456789012:volume/*",
       "Condition": {"StringEquals": {"ec2:ResourceTag/job": "mine"}}},
      {"Effect": "Allow", "Action": "ec2:AttachVolume",
       "Resource": "arn:aws:ec2:us-west-2:123456789012:instance/*", "Condition": {"ArnEquals":
       {"ec2:InstanceProfile": "arn:aws:iam::123456789012:instance-profile/mine"}}},
      {"Effect": "Allow", "Action": "ec2:CreateSnapshot",
       "Resource": "arn:aws:ec2:us-west-2::snapshot/*",
       "Condition": {"StringEquals": {"aws:RequestTag/job": "mine"}}},
      {"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "*",
       "Condition": {"StringEquals": {"ec2:CreateAction": "CreateSnapshot"}}})")});
    EXPECT_TRUE(limited) << limited.error().message;
  }

  using Parameters = std::map<std::string, std::string>;
  Reply call(const std::string& action, Parameters parameters, const std::string& caller = "me") {
    return world.ec2({action, std::move(parameters), caller}, now);
  }
  std::string ok(const std::string& action, Parameters parameters, const std::string& element) {
    const Reply reply = call(action, std::move(parameters), "user");
    EXPECT_EQ(reply.status, 200) << reply.body;
    const auto at = reply.body.find(element) + element.size();
    return reply.body.substr(at, reply.body.find('<', at) - at);
  }
  std::string make_volume(const std::string& key, const std::string& value) {
    return ok("CreateVolume",
              {{"AvailabilityZone", "us-west-2a"},
               {"Size", "1"},
               {"TagSpecification.1.ResourceType", "volume"},
               {"TagSpecification.1.Tag.1.Key", key},
               {"TagSpecification.1.Tag.1.Value", value}},
              "<volumeId>");
  }
  static Parameters snapshot_of(const std::string& volume, const std::string& tag) {
    return {{"VolumeId", volume},
            {"TagSpecification.1.ResourceType", "snapshot"},
            {"TagSpecification.1.Tag.1.Key", "job"},
            {"TagSpecification.1.Tag.1.Value", tag}};
  }
  static bool is_refused(const Reply& reply) {
    return reply.status == 403 &&
           reply.body.find("<Code>UnauthorizedOperation</Code>") != reply.body.npos;
  }

  World world;
  Time now{};
  std::string instance, ours, theirs;
};

TEST_F(UnderAPolicy, OnlyWhatItsTagsSayMayBeTouched) {
  EXPECT_EQ(call("DescribeVolumes", {}).status, 200);
  EXPECT_TRUE(is_refused(call("DescribeInstances", {})));
  EXPECT_TRUE(is_refused(call("DeleteVolume", {{"VolumeId", theirs}})));
  EXPECT_EQ(call("DeleteVolume", {{"VolumeId", ours}}).status, 200);
}

TEST_F(UnderAPolicy, TheMessageNamesWhoWhatAndOnWhat) {
  const std::string body = call("DeleteVolume", {{"VolumeId", theirs}}).body;
  EXPECT_NE(body.find("user/me is not authorized to perform: ec2:DeleteVolume on resource: "
                      "arn:aws:ec2:us-west-2:123456789012:volume/" +
                      theirs),
            body.npos)
      << body;
  EXPECT_NE(body.find("Encoded authorization failure message: 7b"), body.npos) << body;
}

TEST_F(UnderAPolicy, EveryResourceOfACallIsAskedFor) {
  const auto attach = [&](const std::string& volume) {
    return call("AttachVolume",
                {{"VolumeId", volume}, {"InstanceId", instance}, {"Device", "/dev/sdf"}});
  };
  EXPECT_TRUE(is_refused(attach(theirs)));
  EXPECT_EQ(attach(ours).status, 200);
  // The volume's tag, the new snapshot's, and the right to tag it.
  EXPECT_TRUE(is_refused(call("CreateSnapshot", snapshot_of(theirs, "mine"))));
  EXPECT_TRUE(is_refused(call("CreateSnapshot", snapshot_of(ours, "other"))));
  EXPECT_TRUE(is_refused(
      call("CreateTags", {{"ResourceId.1", ours}, {"Tag.1.Key", "job"}, {"Tag.1.Value", "mine"}})));
  EXPECT_EQ(call("CreateSnapshot", snapshot_of(ours, "mine")).status, 200);
}

// AWS authorizes CreateFleet on all that the fleet uses: each is left out in its turn.
TEST_F(UnderAPolicy, AFleetIsJudgedOnEachThingThatItUses) {
  const std::string arn = "arn:aws:ec2:us-west-2:123456789012:";
  const std::string id = ok("CreateLaunchTemplate",
                            {{"LaunchTemplateName", "mine"},
                             {"LaunchTemplateData.ImageId", "ami-1a2b3c4d"},
                             {"LaunchTemplateData.KeyName", "key"},
                             {"LaunchTemplateData.SecurityGroupId.1", "sg-1a2b3c4d"},
                             {"LaunchTemplateData.IamInstanceProfile.Name", "mine"}},
                            "<launchTemplateId>");
  const std::string config = "LaunchTemplateConfigs.1.";
  const Parameters fleet = {{config + "LaunchTemplateSpecification.LaunchTemplateId", id},
                            {config + "LaunchTemplateSpecification.Version", "1"},
                            {config + "Overrides.1.InstanceType", "g5.xlarge"},
                            {config + "Overrides.1.SubnetId", "subnet-1a2b3c4d"},
                            {"TargetCapacitySpecification.SpotTargetCapacity", "1"},
                            {"TargetCapacitySpecification.TotalTargetCapacity", "1"}};
  const std::vector<std::string> used = {arn + "fleet/*",
                                         arn + "launch-template/" + id,
                                         "arn:aws:ec2:us-west-2::image/ami-1a2b3c4d",
                                         "arn:aws:ec2:us-west-2::snapshot/*",
                                         arn + "key-pair/key",
                                         arn + "subnet/subnet-1a2b3c4d",
                                         arn + "security-group/sg-1a2b3c4d",
                                         arn + "network-interface/*",
                                         arn + "instance/*",
                                         arn + "volume/*"};
  for (std::size_t lacking = 0; lacking <= used.size(); ++lacking) {
    std::string resources;
    for (std::size_t i = 0; i < used.size(); ++i)
      if (i != lacking) resources += (resources.empty() ? "\"" : ", \"") + used[i] + "\"";
    ASSERT_TRUE(world.set_policies(
        "me",
        {policy(R"({"Effect": "Allow", "Action": "ec2:CreateFleet", "Resource": [)" + resources +
                R"(]}, {"Effect": "Allow", "Action": ["ec2:RunInstances", "iam:PassRole"],
                "Resource": "*"})")}));
    const Reply reply = call("CreateFleet", fleet);
    if (lacking == used.size())
      EXPECT_EQ(reply.status, 200) << reply.body;
    else
      EXPECT_NE(reply.body.find("ec2:CreateFleet on resource: " + used[lacking]), std::string::npos)
          << used[lacking] << ": " << reply.body;
  }
}

TEST_F(UnderAPolicy, ATooLongPolicyIsRefusedAndWhiteSpaceDoesNotCount) {
  const auto with = [](std::size_t letters, const std::string& blanks = "") {
    return policy(R"({"Effect": "Allow", "Action": "s:A",)" + blanks + R"( "Resource": ")" +
                  "arn:aws:s3:::" + std::string(letters, 'r') + "\"}");
  };
  EXPECT_TRUE(world.set_policies("role/r", {with(10000, std::string(9000, ' '))}));
  EXPECT_FALSE(world.set_policies("role/r", {with(11000)}));
  EXPECT_FALSE(world.set_policies("role/r", {with(5500), with(5500)}));
  EXPECT_TRUE(world.set_policies("u", {with(5500), with(5500)}));
  const auto refused = world.set_policies("u", {with(6200)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "LimitExceeded");
}

TEST_F(UnderAPolicy, ADryRunSaysWhetherItWouldBeAllowed) {
  EXPECT_TRUE(is_refused(call("DeleteVolume", {{"VolumeId", theirs}, {"DryRun", "true"}})));
  const Reply reply = call("DeleteVolume", {{"VolumeId", ours}, {"DryRun", "true"}});
  EXPECT_EQ(reply.status, 412);
  EXPECT_NE(reply.body.find("DryRunOperation"), reply.body.npos);
}

TEST_F(UnderAPolicy, OthersMayDoEverythingAndSoMayOneWithoutAPolicyAgain) {
  EXPECT_EQ(call("DescribeInstances", {}, "user").status, 200);
  EXPECT_EQ(world.credential("AKIAME00000000000000", now)->caller, "me");
  ASSERT_TRUE(world.set_policies("me", {}));
  EXPECT_EQ(call("DescribeInstances", {}).status, 200);
  EXPECT_FALSE(world.set_policies("me", {"{}"}));
}

}  // namespace
}  // namespace spotter::world
