// IAM: roles and profiles, and what other services know of them meanwhile.
#include "tests/world/iam.hpp"

#include "tests/world/ec2_access.hpp"
#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

constexpr const char* for_ec2 =
    R"({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole",
        "Principal": {"Service": "ec2.amazonaws.com"}}]})";

std::string for_role(const std::string& principal, const std::string& condition = "{}") {
  return R"({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole",
             "Principal": {"AWS": ")" +
         principal + R"("}, "Condition": )" + condition + "}]}";
}

Settings empty_account() {
  Settings settings;
  settings.empty_account = true;
  settings.iam_reaches = {5_s, 10_s};
  return settings;
}

struct Account : Api {
  Account() : Api(empty_account()) {}

  // The error's code, or nothing.
  std::string iam(const std::string& action, const Parameters& parameters,
                  const std::string& caller = "user") {
    const Reply reply =
        world.iam({.action = action, .parameters = parameters, .caller = caller}, now);
    answer.load_string(reply.body.c_str());
    return answer.select_node("//Error/Code").node().text().get();
  }
  std::string said(const char* path) const { return answer.select_node(path).node().text().get(); }
  void role(const std::string& name, const std::string& trust, const std::string& allowed) {
    EXPECT_EQ(iam("CreateRole", {{"RoleName", name}, {"AssumeRolePolicyDocument", trust}}), "");
    EXPECT_EQ(iam("PutRolePolicy", {{"RoleName", name},
                                    {"PolicyName", "all"},
                                    {"PolicyDocument",
                                     R"({"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
                                         "Action": ")" +
                                         allowed + R"(", "Resource": "*"}]})"}}),
              "");
  }
  void profile(const std::string& name) {
    EXPECT_EQ(iam("CreateInstanceProfile", {{"InstanceProfileName", name}}), "");
    EXPECT_EQ(iam("AddRoleToInstanceProfile", {{"InstanceProfileName", name}, {"RoleName", name}}),
              "");
  }
  std::string run(const std::string& profile, Parameters more = {}) {
    more.insert({{"ImageId", "ami-0123456789abcdef0"},
                 {"InstanceType", "g5.xlarge"},
                 {"MinCount", "1"},
                 {"MaxCount", "1"},
                 {"IamInstanceProfile.Name", profile}});
    return error("RunInstances", more);
  }
  std::string assume(const std::string& role, const std::string& caller,
                     const std::string& policy = "") {
    Parameters parameters{{"RoleArn", "arn:aws:iam::123456789012:role/" + role},
                          {"RoleSessionName", "session"}};
    if (!policy.empty()) parameters.emplace("Policy", policy);
    const Reply reply =
        world.sts({.action = "AssumeRole", .parameters = parameters, .caller = caller}, now);
    answer.load_string(reply.body.c_str());
    return said("//Error/Code");
  }

  pugi::xml_document answer;
};

TEST(Iam, AnInstanceProfileThatIsNotThereLaunchesNothing) {
  Account account;
  EXPECT_EQ(account.run("spotter"), "InvalidParameterValue");
  EXPECT_EQ(account.run("spotter", {{"DryRun", "true"}}), "InvalidParameterValue")
      << "a dry run says it, too";
  EXPECT_EQ(account.iam("GetInstanceProfile", {{"InstanceProfileName", "spotter"}}),
            "NoSuchEntity");
  Api other;
  EXPECT_EQ(other.error("RunInstances", {{"ImageId", "ami-0123456789abcdef0"},
                                         {"MinCount", "1"},
                                         {"MaxCount", "1"},
                                         {"IamInstanceProfile.Name", "spotter"}}),
            "")
      << "in an account that did not begin empty all of them are there";
}

TEST(Iam, AProfileThatWasJustMadeIsKnownToEc2OnlyLater) {
  Account account;
  account.role("spotter", for_ec2, "ec2:DescribeVolumes");
  account.profile("spotter");
  EXPECT_EQ(account.iam("GetInstanceProfile", {{"InstanceProfileName", "spotter"}}), "");
  EXPECT_EQ(account.said("//Roles/member/RoleName"), "spotter");
  EXPECT_EQ(account.run("spotter"), "InvalidParameterValue");
  account.wait(10_s);
  EXPECT_EQ(account.run("spotter", {{"DryRun", "true"}}), "DryRunOperation");
  EXPECT_EQ(account.run("spotter"), "");
}

TEST(Iam, AFleetLaunchesOnceItsProfileIsKnown) {
  Account account;
  const std::string specification = "SpotFleetRequestConfig.LaunchSpecifications.1.";
  account.role("spotter", for_ec2, "ec2:DescribeVolumes");
  account.profile("spotter");
  const std::string fleet =
      account.spot_fleet({{specification + "IamInstanceProfile.Name", "spotter"}});
  account.wait(2_s);
  EXPECT_TRUE(account.all<InstanceStarted>().empty());
  EXPECT_NE(account
                .ask("DescribeSpotFleetRequestHistory",
                     {{"SpotFleetRequestId", fleet}, {"StartTime", "2025-12-31T00:00:00Z"}},
                     "historyRecordSet/item[last()]/eventInformation/eventDescription")
                .find("Invalid IAM Instance Profile name"),
            std::string::npos);
  account.wait(30_s);
  EXPECT_EQ(account.all<InstanceStarted>().size(), 1u);
}

TEST(Iam, ATrustPolicyCannotNameARoleThatWasJustMade) {
  Account account;
  const std::string principal = "arn:aws:iam::123456789012:role/spotter";
  const auto create = [&](const std::string& trust) {
    return account.iam("CreateRole",
                       {{"RoleName", "spotter-trainer"}, {"AssumeRolePolicyDocument", trust}});
  };
  EXPECT_EQ(create(for_role(principal)), "MalformedPolicyDocument") << "there is none";
  account.role("spotter", for_ec2, "*");
  EXPECT_EQ(create(for_role(principal)), "MalformedPolicyDocument") << "not yet";
  EXPECT_EQ(create(for_role("arn:aws:iam::123456789012:root")), "") << "the account is there";
  EXPECT_EQ(create(for_role("arn:aws:iam::123456789012:root")), "EntityAlreadyExists");
}

TEST(Iam, ARoleIsTakenByWhomItsTrustNamesAndNotBeforeItIsKnown) {
  Account account;
  const std::string condition =
      R"({"ArnEquals": {"aws:PrincipalArn": "arn:aws:iam::123456789012:role/spotter"}})";
  account.role("spotter", for_ec2, "sts:AssumeRole");
  account.role("other", for_ec2, "sts:AssumeRole");
  account.role("spotter-trainer", for_role("arn:aws:iam::123456789012:root", condition), "s3:*");
  EXPECT_EQ(account.assume("spotter-trainer", "role/spotter/i-1"), "AccessDenied");
  account.wait(10_s);
  EXPECT_EQ(account.assume("spotter-trainer", "role/spotter/i-1"), "");
  EXPECT_EQ(account.assume("spotter-trainer", "role/other/i-1"), "AccessDenied");
  EXPECT_EQ(account.assume("spotter-trainer", "user"), "AccessDenied") << "whatever he may";
  EXPECT_EQ(account.assume("spotter", "user"), "AccessDenied") << "it is for EC2";
  const auto assumed = [&](const std::string& arn, const std::string& seconds) {
    const Reply reply = account.world.sts({.action = "AssumeRole",
                                           .parameters = {{"RoleArn", arn},
                                                          {"RoleSessionName", "session"},
                                                          {"DurationSeconds", seconds}},
                                           .caller = "user"},
                                          account.now);
    account.answer.load_string(reply.body.c_str());
    return account.said("//Error/Code");
  };
  EXPECT_EQ(assumed("banana-banana-banana-banana", "3600"), "ValidationError");
  account.role("mine", for_role("arn:aws:iam::123456789012:root"), "s3:GetObject");
  account.wait(10_s);
  EXPECT_EQ(assumed("arn:aws:iam::123456789012:role/mine", "3600"), "");
  EXPECT_EQ(assumed("arn:aws:iam::123456789012:role/mine", "3601"), "ValidationError");
}

TEST(Iam, ASessionMayOnlyWhatItsPolicyAndTheRolesBothAllow) {
  Account account;
  account.role("trainer", for_role("arn:aws:iam::123456789012:root"), "s3:*");
  account.wait(10_s);
  const auto statement = [](const std::string& text) {
    return R"({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", )" + text + "}]}";
  };
  const auto may = [&](const std::string& action) {
    const auto& cloud = account.world.cloud();
    return cloud.access->allows(cloud.credentials.at(account.said("//AccessKeyId")).caller,
                                {action, "arn:aws:s3:::a/b"});
  };
  EXPECT_EQ(account.assume("trainer", "role/x/y", statement(R"("Action": "s3:GetObject",
                                                               "Resource": "*")")),
            "");
  EXPECT_TRUE(may("s3:GetObject"));
  EXPECT_FALSE(may("s3:PutObject")) << "the session has no part in it";
  EXPECT_EQ(account.assume("trainer", "role/x/y", statement(R"("NotAction": "s3:Get*",
                                                               "Resource": "*")")),
            "");
  EXPECT_FALSE(may("s3:GetObject"));
  EXPECT_TRUE(may("s3:PutObject"));
  EXPECT_FALSE(may("ec2:RunInstances")) << "the role may not";
  EXPECT_EQ(account.assume("trainer", "role/x/y"), "");
  EXPECT_TRUE(may("s3:GetObject")) << "without one it has all that the role has";
  EXPECT_EQ(account.assume("trainer", "role/x/y", std::string(2049, ' ')), "ValidationError");
}

TEST(Iam, AnInstanceHasTheRightsOfItsProfilesRole) {
  Account account;
  account.role("spotter", for_ec2, "ec2:DescribeVolumes");
  account.profile("spotter");
  account.wait(10_s);
  const std::string id = account.ask("RunInstances",
                                     {{"ImageId", "ami-0123456789abcdef0"},
                                      {"MinCount", "1"},
                                      {"MaxCount", "1"},
                                      {"IamInstanceProfile.Name", "spotter"}},
                                     "instancesSet/item/instanceId");
  account.wait(10_s);
  const std::string token =
      account.world
          .metadata(InstanceId(id),
                    {"PUT", "/latest/api/token", {{"x-aws-ec2-metadata-token-ttl-seconds", "60"}}},
                    account.now)
          .body;
  const Reply keys = account.world.metadata(InstanceId(id),
                                            {"GET",
                                             "/latest/meta-data/iam/security-credentials/spotter",
                                             {{"x-aws-ec2-metadata-token", token}}},
                                            account.now);
  ASSERT_EQ(keys.status, 200);
  const std::string caller = "role/spotter/" + id;
  const auto call = [&](const char* action) {
    return account.world.ec2({.action = action, .parameters = {}, .caller = caller}, account.now)
        .status;
  };
  const auto& known = account.world.cloud().credentials;
  EXPECT_TRUE(
      std::ranges::any_of(known, [&](const auto& entry) { return entry.second.caller == caller; }));
  EXPECT_EQ(call("DescribeVolumes"), 200);
  EXPECT_EQ(call("DescribeSnapshots"), 403);
}

TEST(Iam, AUserHasWhatHisManagedPoliciesAllowOnceItIsKnown) {
  Account account;
  const std::string document =
      R"({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "iam:CreateRole",
          "Resource": "*"}]})";
  EXPECT_EQ(account.iam("CreateUser", {{"UserName", "me"}}), "");
  EXPECT_EQ(account.iam("CreatePolicy", {{"PolicyName", "p"}, {"PolicyDocument", document}}), "");
  EXPECT_EQ(account.iam("AttachUserPolicy",
                        {{"UserName", "me"}, {"PolicyArn", account.said("//Policy/Arn")}}),
            "");
  EXPECT_EQ(account.iam("CreateAccessKey", {{"UserName", "me"}}), "");
  const auto create = [&](const char* name) {
    return account.iam("CreateRole", {{"RoleName", name}, {"AssumeRolePolicyDocument", for_ec2}},
                       "me");
  };
  EXPECT_EQ(create("one"), "AccessDenied") << "not yet";
  account.wait(10_s);
  EXPECT_EQ(create("one"), "");
  EXPECT_EQ(account.iam("CreateUser", {{"UserName", "you"}}, "me"), "AccessDenied");
}

TEST(Iam, APathIsAPartOfTheName) {
  Account account;
  EXPECT_EQ(account.iam("CreateRole", {{"RoleName", "spotter"},
                                       {"Path", "/team/"},
                                       {"AssumeRolePolicyDocument", for_ec2}}),
            "");
  EXPECT_EQ(account.said("//Role/Arn"), "arn:aws:iam::123456789012:role/team/spotter");
  account.iam("CreateInstanceProfile", {{"InstanceProfileName", "spotter"}, {"Path", "/team/"}});
  account.iam("AddRoleToInstanceProfile",
              {{"InstanceProfileName", "spotter"}, {"RoleName", "spotter"}});
  account.wait(10_s);
  EXPECT_EQ(account.iam("CreateRole", {{"RoleName", "trainer"},
                                       {"AssumeRolePolicyDocument",
                                        for_role("arn:aws:iam::123456789012:role/spotter")}}),
            "MalformedPolicyDocument");
  const std::string whole = "arn:aws:iam::123456789012:instance-profile/";
  const auto run = [&](const std::string& arn) {
    return account.error("RunInstances", {{"ImageId", "ami-0123456789abcdef0"},
                                          {"InstanceType", "g5.xlarge"},
                                          {"MinCount", "1"},
                                          {"MaxCount", "1"},
                                          {"IamInstanceProfile.Arn", arn}});
  };
  EXPECT_EQ(run(whole + "spotter"), "InvalidParameterValue");
  EXPECT_EQ(run(whole + "team/spotter"), "");
}

TEST(Iam, NamesAndDocumentsAreSuchAsIamTakes) {
  Account account;
  const auto role = [&](const std::string& name, const std::string& trust = for_ec2) {
    return account.iam("CreateRole", {{"RoleName", name}, {"AssumeRolePolicyDocument", trust}});
  };
  EXPECT_EQ(role(std::string(64, 'r')), "");
  EXPECT_EQ(role(std::string(65, 'r')), "ValidationError");
  EXPECT_EQ(role("team/spotter"), "ValidationError");
  EXPECT_EQ(role("spaced", for_ec2 + std::string(2048, ' ')), "") << "white space does not count";
  std::string longer = for_ec2;
  longer.insert(longer.find("\"Effect"), "\"Sid\": \"" + std::string(2048, '1') + "\", ");
  EXPECT_EQ(role("longer", longer), "LimitExceeded");
  account.role("spotter", for_ec2, "ec2:DescribeVolumes");
  const auto put = [&](const std::string& value, const std::string& name = "all") {
    return account.iam("PutRolePolicy",
                       {{"RoleName", "spotter"},
                        {"PolicyName", name},
                        {"PolicyDocument",
                         R"({"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
                             "Action": "s3:GetObject", "Resource": ")" +
                             value + R"("}]})"}});
  };
  EXPECT_EQ(put("arn:aws:s3:::b/\u00e9"), "") << "U+00E9 is a letter that IAM takes";
  EXPECT_EQ(put("arn:aws:s3:::b/\ud559\uc2b5"), "ValidationError");
  const std::string of_a_bucket = "arn:aws:s3:::" + std::string(9000, 'a');
  EXPECT_EQ(put(of_a_bucket), "");
  EXPECT_EQ(put(of_a_bucket, "second"), "LimitExceeded") << "all of a role together";
  EXPECT_EQ(put("banana"), "MalformedPolicyDocument");
  EXPECT_EQ(role("Spotter"), "EntityAlreadyExists") << "whatever the case of its letters";
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string trust = for_ec2;
    return role("changed", trust.replace(trust.find(from), from.size(), to));
  };
  for (const auto& [from, to] : std::map<std::string, std::string>{
           {"ec2.amazonaws.com", "banana"},
           {"2012-10-17", "2020-01-01"},
           {"\"Effect\": \"Allow\"", "\"Effect\": \"Allow\", \"Sid\": \"a b\""}})
    EXPECT_EQ(changed(from, to), "MalformedPolicyDocument") << to;
  EXPECT_EQ(changed("2012-10-17", "2008-10-17"), "");
}

TEST(Iam, AUserHasTwoKeysOfLettersAndDigits) {
  Account account;
  account.iam("CreateUser", {{"UserName", "me"}});
  for (const char* code : {"", "", "LimitExceeded"})
    EXPECT_EQ(account.iam("CreateAccessKey", {{"UserName", "me"}}), code);
  account.iam("CreateUser", {{"UserName", "you"}});
  account.iam("CreateAccessKey", {{"UserName", "you"}});
  const std::string key = account.said("//AccessKeyId");
  EXPECT_TRUE(key.starts_with("AKIA") && key.size() == 20) << key;
  EXPECT_EQ(key.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), key.npos) << key;
}

TEST(Iam, WhatARoleMayDoCanBeAskedBeforeOtherServicesKnowIt) {
  Account account;
  account.role("spotter", for_ec2, "ec2:DescribeVolumes");
  const std::string arn = "arn:aws:iam::123456789012:role/spotter";
  const auto decision = [&](const std::string& action, Parameters more = {}) {
    more.insert({{"PolicySourceArn", arn}, {"ActionNames.member.1", action}});
    const std::string code = account.iam("SimulatePrincipalPolicy", more);
    return code.empty() ? account.said("//EvaluationResults/member/EvalDecision") : code;
  };
  EXPECT_EQ(decision("ec2:DescribeVolumes"), "allowed");
  EXPECT_EQ(decision("ec2:AttachVolume"), "implicitDeny");
  EXPECT_EQ(decision("ec2:DescribeVolumes", {{"PolicySourceArn", arn + "2"}}), "NoSuchEntity");
  EXPECT_EQ(decision("ec2:DescribeVolumes", {{"PolicySourceArn", "spotter"}}), "InvalidInput");
  EXPECT_EQ(decision("ec2:DescribeVolumes", {{"Unknown", "1"}}), "ValidationError");
  EXPECT_EQ(decision("banana"), "InvalidInput");
  const std::string me = "arn:aws:iam::123456789012:user/me";
  EXPECT_EQ(decision("ec2:DescribeVolumes", {{"PolicySourceArn", me}}), "NoSuchEntity");
  account.iam("CreateUser", {{"UserName", "me"}});
  EXPECT_EQ(decision("ec2:DescribeVolumes", {{"PolicySourceArn", me}}), "implicitDeny");
  EXPECT_EQ(account.iam("SimulatePrincipalPolicy", {{"PolicySourceArn", arn}}), "ValidationError");
  account.iam("PutRolePolicy", {{"RoleName", "spotter"},
                                {"PolicyName", "tagged"},
                                {"PolicyDocument", R"({"Version": "2012-10-17", "Statement": [
                   {"Effect": "Allow", "Action": "ec2:AttachVolume",
                    "Resource": "arn:*:ec2:*:*:volume/*",
                    "Condition": {"StringEquals": {"ec2:ResourceTag/job": "mine"}}},
                   {"Effect": "Deny", "Action": "ec2:AttachVolume",
                    "Resource": "arn:*:ec2:*:*:volume/theirs"}]})"}});
  const Parameters mine = {{"ContextEntries.member.1.ContextKeyName", "ec2:ResourceTag/job"},
                           {"ContextEntries.member.1.ContextKeyType", "string"},
                           {"ContextEntries.member.1.ContextKeyValues.member.1", "mine"},
                           {"ResourceArns.member.1", "arn:aws:ec2:r:1:volume/ours"}};
  EXPECT_EQ(decision("ec2:AttachVolume", mine), "allowed");
  Parameters both = mine;
  both["ResourceArns.member.2"] = "arn:aws:ec2:r:1:volume/theirs";
  EXPECT_EQ(decision("ec2:AttachVolume", both), "explicitDeny") << "the most restrictive of all";
  Parameters two = mine;
  two["ContextEntries.member.1.ContextKeyValues.member.2"] = "yours";
  EXPECT_EQ(decision("ec2:AttachVolume", two), "InvalidInput") << "a string has one value";
  Parameters other = mine;
  other["ContextEntries.member.1.ContextKeyValues.member.1"] = "yours";
  EXPECT_EQ(decision("ec2:AttachVolume", other), "implicitDeny");
}

TEST(Iam, AServicesOwnRoleIsMadeOnce) {
  Account account;
  const auto create = [&](const char* service = "spot.amazonaws.com") {
    return account.iam("CreateServiceLinkedRole", {{"AWSServiceName", service}});
  };
  EXPECT_EQ(create(), "");
  EXPECT_EQ(create(), "InvalidInput");
  EXPECT_EQ(create("banana.amazonaws.com"), "InvalidInput");
}

TEST(Launching, AnImageOfAnotherArchitectureIsRefused) {
  Api api;
  const auto run = [&](const char* image, const char* type) {
    return api.ask(
        "RunInstances",
        {{"ImageId", image}, {"InstanceType", type}, {"MinCount", "1"}, {"MaxCount", "1"}},
        "Errors/Error/Message");
  };
  EXPECT_NE(run("ami-0a640000000000000", "g5.xlarge")
                .find("The architecture 'x86_64' of the specified instance type does not match "
                      "the architecture 'arm64' of the specified AMI"),
            std::string::npos);
  EXPECT_EQ(run("ami-0a640000000000000", "g5g.xlarge"), "");
  EXPECT_NE(run("ami-0123456789abcdef0", "g5g.xlarge"), "");
}

}  // namespace
}  // namespace spotter::world
