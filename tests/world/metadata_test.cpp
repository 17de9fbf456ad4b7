#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

struct MetadataService : testing::Test {
  Reply put_token(const std::string& seconds, Api::Parameters more = {}) {
    more["x-aws-ec2-metadata-token-ttl-seconds"] = seconds;
    return api.world.metadata(id, {"PUT", "/latest/api/token", more}, api.now);
  }
  Reply get(const std::string& path) {
    return api.world.metadata(id, {"GET", "/latest/" + path, {{"x-aws-ec2-metadata-token", token}}},
                              api.now);
  }
  Api api;
  InstanceId id = InstanceId(api.instance("us-west-2b"));
  std::string token = put_token("60").body;
};

TEST_F(MetadataService, RefusesVersionOneAndMalformedTokenRequests) {
  EXPECT_EQ(api.world.metadata(id, {"GET", "/latest/meta-data/instance-id", {}}, api.now).status,
            401);
  EXPECT_EQ(put_token("0").status, 400);
  EXPECT_EQ(put_token("21601").status, 400);
  EXPECT_EQ(put_token("soon").status, 400);
  EXPECT_EQ(api.world.metadata(id, {"PUT", "/latest/api/token", {}}, api.now).status, 400);
  EXPECT_EQ(put_token("60", {{"x-forwarded-for", "10.0.0.1"}}).status, 403);
  EXPECT_EQ(get("meta-data/instance-id").body, id.view());
  api.wait(60_s);
  EXPECT_EQ(get("meta-data/instance-id").status, 401);
}

TEST_F(MetadataService, ATokenIsOfOneInstanceOnly) {
  const InstanceId other(api.instance());
  const MetadataRequest request{
      "GET", "/latest/meta-data/instance-id", {{"x-aws-ec2-metadata-token", token}}};
  EXPECT_EQ(api.world.metadata(other, request, api.now).status, 401);
}

TEST_F(MetadataService, SaysWhoAndWhereTheInstanceIs) {
  EXPECT_EQ(get("meta-data/placement/availability-zone").body, "us-west-2b");
  EXPECT_EQ(get("meta-data/placement/").body, "availability-zone\navailability-zone-id\nregion");
  EXPECT_NE(get("meta-data/").body.find("placement/"), std::string::npos);
  EXPECT_NE(get("dynamic/instance-identity/document").body.find("\"region\": \"us-west-2\""),
            std::string::npos);
  EXPECT_EQ(get("meta-data/events/maintenance/scheduled").body, "[]");
  EXPECT_EQ(get("meta-data/instance-action").body, "none");
  EXPECT_EQ(get("").body, "dynamic\nmeta-data");
  EXPECT_EQ(get("meta-data/block-device-mapping/").body, "ami\nroot");
  EXPECT_EQ(get("meta-data/ami-manifest-path").body, "(unknown)");
  EXPECT_EQ(get("meta-data/network/interfaces/macs/" + get("meta-data/mac").body + "/vpc-id").body,
            "vpc-00000000000000000");
  const Reply missing = get("meta-data/tags/instance/Name");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.content_type, "text/html");
  EXPECT_EQ(missing.headers.at("Date"), "Thu, 01 Jan 2026 00:00:00 GMT");
}

TEST_F(MetadataService, ItsDatedVersionsShowWhatThereWasThen) {
  const auto at = [this](const std::string& path) {
    return api.world.metadata(id, {"GET", path, {{"x-aws-ec2-metadata-token", token}}}, api.now);
  };
  EXPECT_TRUE(at("/").body.starts_with("1.0\n2007-01-19\n"));
  EXPECT_TRUE(at("/").body.ends_with("\nlatest"));
  EXPECT_EQ(at("/2009-04-04/meta-data/instance-id").body, id.view());
  EXPECT_EQ(at("/2009-04-04/meta-data/placement/").body, "availability-zone");
  EXPECT_EQ(at("/2009-04-04/meta-data/mac").status, 404);
  EXPECT_EQ(at("/2021-03-23/meta-data/placement/availability-zone-id").body, "usw2-az2");
  EXPECT_EQ(at("/2021-03-24/meta-data/instance-id").status, 404) << "no such version";
  EXPECT_EQ(at("/meta-data/instance-id").status, 404);
  ASSERT_TRUE(api.world.interrupt(id, InterruptionAction::Terminate, 50_s, api.now));
  EXPECT_EQ(at("/2014-11-05/meta-data/spot/instance-action").status, 404);
  EXPECT_EQ(at("/2014-11-05/meta-data/spot/termination-time").status, 200);
  EXPECT_EQ(at("/2016-11-15/meta-data/").status, 404) << "of no build that is listed";
  EXPECT_EQ(at("/2018-03-28/meta-data/spot/instance-action").status, 200);
}

TEST_F(MetadataService, DescribesTheNetwork) {
  const std::string mac = get("meta-data/mac").body;
  EXPECT_EQ(get("meta-data/network/interfaces/macs/").body, mac + "/");
  const std::string below = "meta-data/network/interfaces/macs/" + mac + "/";
  EXPECT_EQ(get(below + "local-ipv4s").body, get("meta-data/local-ipv4").body);
  EXPECT_EQ(get(below + "device-number").body, "0");
  EXPECT_TRUE(get(below + "subnet-id").body.starts_with("subnet-"));
  const std::string subnet = get(below + "subnet-id").body;
  EXPECT_EQ(get(below + "subnet-ipv4-cidr-block").body,
            api.ask("DescribeSubnets", {{"SubnetId.1", subnet}}, "subnetSet/item/cidrBlock"));
  EXPECT_EQ(get(below + "vpc-ipv4-cidr-block").body, "172.31.0.0/16");
  EXPECT_EQ(get(below + "vpc-ipv4-cidr-blocks").body, "172.31.0.0/16");
  EXPECT_TRUE(get("meta-data/reservation-id").body.starts_with("r-"));
  EXPECT_EQ(get("dynamic/instance-identity/").body, "document\npkcs7\nrsa2048\nsignature");
}

TEST_F(MetadataService, ShowsANoticeAtOnceAndForgetsItWhenWithdrawn) {
  EXPECT_EQ(get("meta-data/spot/instance-action").status, 404);
  ASSERT_TRUE(api.world.interrupt(id, InterruptionAction::Terminate, 50_s, api.now));
  EXPECT_EQ(get("meta-data/spot/instance-action").body,
            "{\"action\": \"terminate\", \"time\": \"2026-01-01T00:00:50Z\"}");
  EXPECT_EQ(get("meta-data/spot/termination-time").body, "2026-01-01T00:00:50Z");
  ASSERT_TRUE(api.world.rebalance(id, api.now));
  EXPECT_EQ(get("meta-data/events/recommendations/rebalance").body,
            "{\"noticeTime\": \"2026-01-01T00:00:00Z\"}");
  ASSERT_TRUE(api.world.withdraw(id, api.now));
  EXPECT_EQ(get("meta-data/spot/instance-action").status, 404);
  EXPECT_EQ(get("meta-data/events/recommendations/rebalance").status, 404);
}

TEST_F(MetadataService, IsSilentOnceTheInstanceIsDead) {
  ASSERT_TRUE(api.world.kill(id, api.now));
  EXPECT_TRUE(get("meta-data/instance-id").drop);
}

TEST_F(MetadataService, GivesCredentialsThatTheWorldKnows) {
  const std::string path = "meta-data/iam/security-credentials/";
  EXPECT_EQ(get(path).body, "spotter-role");
  const std::string body = get(path + "spotter-role").body;
  const std::size_t at = body.find("ASIA");
  ASSERT_NE(at, std::string::npos);
  const std::string key = body.substr(at, 20);
  const auto credential = api.world.credential(key, api.now);
  ASSERT_TRUE(credential);
  EXPECT_EQ(credential->caller, id.view());
  EXPECT_NE(body.find(credential->session_token), std::string::npos);
  EXPECT_EQ(get(path + "spotter-role").body, body);
  EXPECT_FALSE(api.world.credential(key, api.now + 7 * 3600_s));
  EXPECT_EQ(api.world.credential("AKIAEMULATOR00000000", api.now)->secret, "emulator-secret");
}

TEST_F(MetadataService, FailsInEveryNamedWay) {
  const std::string whole = get("meta-data/instance-id").body;
  const auto under = [&](const std::string& mode) {
    EXPECT_TRUE(api.world.fault("imds", {{"mode", mode}, {"for", "10s"}}, api.now));
    return get("meta-data/instance-id");
  };
  EXPECT_TRUE(under("down").drop);
  EXPECT_EQ(under("slow").delay, Duration{2000});
  EXPECT_EQ(under("401").status, 401);
  EXPECT_EQ(put_token("60").status, 200);
  EXPECT_EQ(under("429").status, 429);
  EXPECT_EQ(under("500").status, 500);
  EXPECT_EQ(under("empty").body, "");
  EXPECT_NE(under("garbage").body, whole);
  EXPECT_EQ(under("half").body, whole.substr(0, whole.size() / 2));
  api.wait(10_s);
  EXPECT_EQ(get("meta-data/instance-id").body, whole);
}

TEST(Metadata, ShowsTagsOnlyWhereSwitchedOn) {
  Settings settings;
  settings.metadata_tags = true;
  Api api(settings);
  api.spot_fleet();
  api.wait(20_s);
  const InstanceId id = api.all<InstanceStarted>().at(0).id;
  const std::string token =
      api.world
          .metadata(id,
                    {"PUT", "/latest/api/token", {{"x-aws-ec2-metadata-token-ttl-seconds", "9"}}},
                    api.now)
          .body;
  const auto get = [&](const std::string& path) {
    return api.world
        .metadata(id, {"GET", "/latest/" + path, {{"x-aws-ec2-metadata-token", token}}}, api.now)
        .body;
  };
  EXPECT_EQ(get("meta-data/tags/instance"), "aws:ec2spot:fleet-request-id");
  EXPECT_EQ(get("meta-data/tags/instance/aws:ec2spot:fleet-request-id").rfind("sfr-", 0), 0u);
  EXPECT_EQ(get("user-data"), "echo hi");
}

TEST(Metadata, AnswersWithoutATokenOnlyWhereTokensAreOptional) {
  const auto status = [](const Settings& settings,
                         const std::map<std::string, std::string>& headers) {
    Api api(settings);
    api.spot_fleet();
    api.wait(20_s);
    const InstanceId id = api.all<InstanceStarted>().at(0).id;
    const auto ask = [&](const std::string& path) {
      return api.world.metadata(id, {"GET", "/latest/meta-data/" + path, headers}, api.now).status;
    };
    return std::pair(ask("instance-id"), ask("spot/instance-action"));
  };
  Settings optional;
  optional.tokens_optional = true;
  EXPECT_EQ(status({}, {}), std::pair(401, 401));
  EXPECT_EQ(status(optional, {}), std::pair(200, 404)) << "404: there is no notice";
  EXPECT_EQ(status(optional, {{"x-aws-ec2-metadata-token", "wrong"}}), std::pair(401, 401));
}

}  // namespace
}  // namespace spotter::world
