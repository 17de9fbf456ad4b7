#include "agent/aws/formats/imds.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

using namespace std::chrono_literals;

WallTime at(const char* text) { return parse_rfc3339(text).value(); }

TEST(ClockText, ReadsRfc3339) {
  EXPECT_EQ(to_rfc3339(at("2026-11-21T10:15:30Z")), "2026-11-21T10:15:30Z");
  EXPECT_EQ(at("2026-11-21T10:15:30.999Z"), at("2026-11-21T10:15:30Z"));
  EXPECT_EQ(at("2026-11-21T11:15:30+01:00"), at("2026-11-21T10:15:30Z"));
  EXPECT_EQ(at("1970-01-01T00:00:10Z").time_since_epoch(), 10s);
  EXPECT_EQ(to_amz_date(at("2026-01-02T03:04:05Z")), "20260102T030405Z");
  for (const char* text :
       {"", "2026-11-21", "2026-13-21T10:15:30Z", "2026-02-30T10:15:30Z", "2026-11-21T24:15:30Z",
        "2026-11-21T10:15:30", "2026-11-21T10:15:30Zx"}) {
    EXPECT_FALSE(parse_rfc3339(text)) << text;
  }
}

TEST(ClockText, ReadsHttpDates) {
  EXPECT_EQ(parse_http_date("Sat, 21 Nov 2026 10:15:30 GMT").value(), at("2026-11-21T10:15:30Z"));
  for (const char* text : {"", "21 Nov 2026 10:15:30 GMT", "Sat, 21 Nov 2026 10:15:30",
                           "Sat, 21 Foo 2026 10:15:30 GMT"}) {
    EXPECT_FALSE(parse_http_date(text)) << text;
  }
}

TEST(Imds, ReadsTheIdentityDocument) {
  const auto identity = parse_identity(R"({"accountId": "123456789012", "architecture": "x86_64",
    "availabilityZone": "us-west-2b", "billingProducts": null, "imageId": "ami-5fb8c835",
    "instanceId": "i-1234567890abcdef0", "instanceType": "p3.2xlarge", "region": "us-west-2"})");
  ASSERT_TRUE(identity) << identity.error().message;
  EXPECT_EQ(identity->instance, InstanceId("i-1234567890abcdef0"));
  EXPECT_EQ(identity->zone, Zone("us-west-2b"));
  EXPECT_EQ(identity->region, Region("us-west-2"));
  EXPECT_EQ(identity->type, InstanceType("p3.2xlarge"));
  EXPECT_EQ(identity->account, "123456789012");
  EXPECT_FALSE(parse_identity(R"({"instanceId": "i-1", "region": "us-west-2"})"));
  EXPECT_FALSE(parse_identity(R"({"instanceId": "i-1", "region)"));
  EXPECT_FALSE(parse_identity("[]"));
}

TEST(Imds, ReadsEachKindOfNotice) {
  EXPECT_EQ(parse_spot_notice(R"({"action": "terminate", "time": "2026-11-21T10:15:30Z"})").value(),
            (SpotNotice{InterruptionAction::Terminate, at("2026-11-21T10:15:30Z")}));
  EXPECT_EQ(parse_spot_notice(R"({"action":"stop","time":"2026-11-21T10:15:30Z"})")->action,
            InterruptionAction::Stop);
  EXPECT_EQ(parse_spot_notice(R"({"action":"hibernate","time":"2026-11-21T10:15:30Z"})")->action,
            InterruptionAction::Hibernate);
  EXPECT_FALSE(parse_spot_notice(R"({"action":"dance","time":"2026-11-21T10:15:30Z"})"));
  EXPECT_FALSE(parse_spot_notice(R"({"action":"terminate"})"));
  EXPECT_FALSE(parse_spot_notice(R"({"action":"terminate","time":17})"));
  EXPECT_FALSE(parse_spot_notice(R"({"action":"termi)"));
}

TEST(Imds, BoundsTheRemainingTime) {
  const WallTime now = at("2026-11-21T10:15:30Z");
  EXPECT_EQ(remaining(now + 108s, now), 108s);
  EXPECT_EQ(remaining(now + 1h, now), 120s);
  EXPECT_EQ(remaining(now - 5s, now), 0s);
}

TEST(Imds, ReadsTheSmallOnes) {
  EXPECT_EQ(parse_rebalance(R"({"noticeTime": "2026-11-21T10:15:30Z"})").value(),
            at("2026-11-21T10:15:30Z"));
  EXPECT_EQ(parse_lifecycle_state("Terminated\n"), LifecycleState::Terminated);
  EXPECT_EQ(parse_lifecycle_state("InService"), LifecycleState::InService);
  EXPECT_EQ(parse_lifecycle_state("Warmed:Stopped"), LifecycleState::Other);
  EXPECT_EQ(parse_lines("Name\nspotter:job\r\n\n"),
            (std::vector<std::string>{"Name", "spotter:job"}));
}

TEST(Imds, ReadsRoleCredentialsAndNeverQuotesThem) {
  const auto credentials = parse_credentials(R"({"Code": "Success", "Type": "AWS-HMAC",
    "AccessKeyId": "ASIA", "SecretAccessKey": "s3cret", "Token": "t",
    "Expiration": "2026-11-21T16:15:30Z"})");
  ASSERT_TRUE(credentials) << credentials.error().message;
  EXPECT_EQ(credentials->session_token, "t");
  EXPECT_EQ(credentials->expiration, at("2026-11-21T16:15:30Z"));
  const auto denied =
      parse_credentials(R"({"Code": "AssumeRoleUnauthorizedAccess", "Message": "no"})");
  ASSERT_FALSE(denied);
  EXPECT_NE(denied.error().message.find("AssumeRoleUnauthorizedAccess"), std::string::npos);
  const auto half = parse_credentials(R"({"SecretAccessKey": "s3cret)");
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().message.find("s3cret"), std::string::npos);
}

TEST(Imds, RefusesJsonThatIsNestedTooDeeply) {
  const auto nested = [](std::size_t depth) {
    return parse_rebalance(R"({"noticeTime": "2026-11-21T10:15:30Z", "more": )" +
                           std::string(depth, '[') + std::string(depth, ']') + "}");
  };
  EXPECT_TRUE(nested(5));
  EXPECT_FALSE(nested(100));
  EXPECT_FALSE(parse_rebalance(std::string(100'000, '[')));
}

}  // namespace
}  // namespace spotter::wire
