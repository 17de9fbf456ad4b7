#include "agent/aws/formats/services.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

// The example of https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html,
// shortened.
const std::string sts_answer = R"(
<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleResult>
    <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/demo/TestAR</Arn></AssumedRoleUser>
    <Credentials>
      <AccessKeyId>ASIAIOSFODNN7EXAMPLE</AccessKeyId>
      <SecretAccessKey>wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY</SecretAccessKey>
      <SessionToken>AQoDYXdzEPT//////////wEXAMPLE</SessionToken>
      <Expiration>2019-11-09T13:34:41Z</Expiration>
    </Credentials>
  </AssumeRoleResult>
</AssumeRoleResponse>)";

TEST(Sts, AssumeRole) {
  const Query query = encode(AssumeRole{"arn:aws:iam::1:role/demo", "spotter-job"});
  EXPECT_EQ(form_body(query),
            "Action=AssumeRole&DurationSeconds=3600&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fdemo"
            "&RoleSessionName=spotter-job&Version=2011-06-15");
  const auto keys = decode<AssumeRole>(sts_answer);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->session_token, "AQoDYXdzEPT//////////wEXAMPLE");
  EXPECT_EQ(to_rfc3339(keys->expiration.value()), "2019-11-09T13:34:41Z");
}

TEST(Sts, AnAnswerThatIsNotWholeShowsNoSecret) {
  for (const char* name : {"AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"}) {
    std::string lacking = sts_answer;
    lacking.erase(lacking.find(std::string("<") + name), 1 + std::string(name).size());
    const auto keys = decode<AssumeRole>(lacking);
    ASSERT_FALSE(keys);
    EXPECT_EQ(keys.error().message.find("EXAMPLE"), std::string::npos) << keys.error().message;
  }
}

TEST(Sts, WhatAContainerIsGivenIsWhatAContainersSdkReads) {
  const auto keys = decode<AssumeRole>(sts_answer).value();
  const auto read = parse_credentials(container_credentials(keys, "arn"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->secret_access_key, keys.secret_access_key);
  EXPECT_EQ(read->session_token, keys.session_token);
  EXPECT_EQ(read->expiration, keys.expiration);
  EXPECT_EQ(container_error("C", "m\xff"), "{\"code\":\"C\",\"message\":\"m\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace spotter::wire
