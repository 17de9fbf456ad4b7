#include "agent/aws/aws_client.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "agent/aws/settings/settings.hpp"
#include "tests/net/server.hpp"

namespace spotter::act {
namespace {

using namespace std::chrono_literals;
using net_test::Reply;
using net_test::run;

const wire::Credentials example{"ASIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                "FwoGZXIvYXdzEXAMPLE/token+with=signs==", std::nullopt};

using Variables = std::map<std::string, std::string, std::less<>>;

Environment with(Variables variables) { return Environment(std::move(variables)); }

std::string signature_of(io::HttpRequest request, const std::string& service) {
  const SigningScope scope{service, "us-west-2",
                           wire::parse_rfc3339("2026-11-21T10:15:30Z").value()};
  sign(request, example, scope);
  const std::string authorization = request.headers.back().second;
  return authorization.substr(authorization.find("SignedHeaders="));
}

// The expected values are those of botocore 1.29.27, its clock set to 2026-11-21T10:15:30Z:
//   botocore.auth.SigV4Auth(credentials, SERVICE, 'us-west-2').add_auth(AWSRequest('POST', ...))
TEST(Signature, IsBotocoresForAnEc2QueryWithASessionToken) {
  io::HttpRequest request{.method = "POST", .url = "https://ec2.us-west-2.amazonaws.com/"};
  request.headers.emplace_back("Content-Type", "application/x-www-form-urlencoded; charset=utf-8");
  request.body =
      "Action=DescribeVolumes&Filter.1.Name=tag%3AName&Filter.1.Value.1=mnist-volume"
      "&Version=2016-11-15";
  EXPECT_EQ(signature_of(request, "ec2"),
            "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, "
            "Signature=8d7663cf46ed5fe2ed38c871383db2cad9f2a54ad0b9ec420be9ded291b4a522");
}

TEST(Signature, IsBotocoresForAJsonCallToAPort) {
  io::HttpRequest request{.method = "POST", .url = "http://127.0.0.1:4566/"};
  request.headers.emplace_back("Content-Type", "application/x-amz-json-1.1");
  request.headers.emplace_back("X-Amz-Target", "AmazonSSM.GetParameter");
  request.body = R"({"Name":"/wandb/key","WithDecryption":true})";
  EXPECT_EQ(signature_of(request, "ssm"),
            "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, "
            "Signature=5b428de84526fe4caed5b0b9587fb5dce2b8123ed75983716b7aef39cdba839f");
}

TEST(Endpoints, FollowTheVariables) {
  const Region region("us-west-2");
  EXPECT_EQ(endpoint(Environment(), "ec2", region), "https://ec2.us-west-2.amazonaws.com");
  EXPECT_EQ(endpoint(Environment(), "ec2", "cn-north-1"),
            "https://ec2.cn-north-1.amazonaws.com.cn");
  const Environment all = with({{"AWS_ENDPOINT_URL", "http://all/"}});
  EXPECT_EQ(endpoint(all, "ec2", region), "http://all");
  const Environment one = with({{"AWS_ENDPOINT_URL", "http://all"},
                                {"AWS_ENDPOINT_URL_EC2", "http://one"},
                                {"AWS_ENDPOINT_URL_AUTO_SCALING", "http://groups"}});
  EXPECT_EQ(endpoint(one, "ec2", region), "http://one");
  EXPECT_EQ(endpoint(one, "autoscaling", region), "http://groups");
  EXPECT_EQ(endpoint(one, "ssm", region), "http://all");
  const Environment ignored =
      with({{"AWS_ENDPOINT_URL", "http://all"}, {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"}});
  EXPECT_EQ(endpoint(ignored, "ec2", region), "https://ec2.us-west-2.amazonaws.com");
}

TEST(SharedConfig, ReadsOneProfile) {
  const std::string text =
      "# a comment\n[default]\naws_access_key_id = A\n  nested = x\n\n[ profile two "
      "]\nregion=r\r\n";
  EXPECT_EQ(parse_profile(text, "default"), (Profile{{"aws_access_key_id", "A"}}));
  EXPECT_EQ(parse_profile(text, "profile two"), (Profile{{"region", "r"}}));
  EXPECT_TRUE(parse_profile(text, "none").empty());
  EXPECT_TRUE(parse_profile("[", "").empty());
}

TEST(SharedConfig, LiesWhereTheVariablesSay) {
  const std::string path = testing::TempDir() + "spotter-credentials-" + std::to_string(getpid());
  std::ofstream(path) << "[ci]\naws_access_key_id=A\naws_secret_access_key=S\n";
  const Environment environment = with(
      {{"AWS_SHARED_CREDENTIALS_FILE", path}, {"AWS_PROFILE", "ci"}, {"HOME", "/nonexistent"}});
  const auto credentials = credentials_from_files(environment);
  std::filesystem::remove(path);
  ASSERT_TRUE(credentials);
  EXPECT_EQ(credentials->secret_access_key, "S");
  EXPECT_FALSE(credentials_from_files(with({{"HOME", "/nonexistent"}})));
}

TEST(Endpoints, TakeTheRegionFromTheEnvironment) {
  EXPECT_EQ(configured_region(with({{"AWS_DEFAULT_REGION", "b"}, {"AWS_REGION", "a"}})),
            Region("a"));
  EXPECT_TRUE(configured_region(with({{"HOME", "/nonexistent"}})).empty());
}

class Chain : public testing::Test {
 protected:
  CredentialChain::RoleSource role() {
    return [this]() -> asio::awaitable<Result<std::optional<wire::Credentials>>> {
      ++asked_;
      if (!role_works_) co_return failure("down");
      wire::Credentials keys{"R" + std::to_string(asked_), "S", "T", now_ + 1h};
      co_return std::optional(std::move(keys));
    };
  }
  CredentialChain chain(Variables variables) {
    variables.emplace("HOME", "/nonexistent");
    return CredentialChain(http_, Environment(std::move(variables)), role(),
                           [this] { return now_; });
  }

  asio::io_context context_;
  io::HttpClient http_{context_};
  wire::WallTime now_ = wire::parse_rfc3339("2026-11-21T10:15:30Z").value();
  int asked_ = 0;
  bool role_works_ = true;
};

TEST_F(Chain, PrefersTheEnvironment) {
  auto credentials = chain({{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "S"}});
  EXPECT_EQ(run(context_, credentials.get())->access_key_id, "A");
  EXPECT_EQ(asked_, 0);
}

TEST_F(Chain, AsksAContainersEndpointWithItsToken) {
  net_test::Server server(context_, [](const auto& request) {
    if (request["Authorization"] != "secret-token") return Reply{.status = 401};
    return Reply{.body = R"({"AccessKeyId":"C","SecretAccessKey":"S","Token":"T",
                             "Expiration":"2026-11-21T16:15:30Z"})"};
  });
  auto credentials = chain({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/keys"},
                            {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret-token"}});
  EXPECT_EQ(run(context_, credentials.get())->access_key_id, "C");
  EXPECT_EQ(asked_, 0);
}

TEST_F(Chain, TrustsNoStrangersEndpoint) {
  for (const char* url : {"http://example.com/keys", "http://127.0.0.1@example.com/", "ftp://x"}) {
    auto credentials = chain({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url}});
    EXPECT_FALSE(run(context_, credentials.get())) << url;
  }
}

TEST_F(Chain, RefreshesBeforeExpiryAndForgivesAFailureUntilThen) {
  auto credentials = chain({});
  EXPECT_EQ(run(context_, credentials.get())->access_key_id, "R1");
  now_ += 54min;
  EXPECT_EQ(run(context_, credentials.get())->access_key_id, "R1");
  EXPECT_EQ(asked_, 1);
  now_ += 2min;
  role_works_ = false;
  EXPECT_EQ(run(context_, credentials.get())->access_key_id, "R1");
  EXPECT_EQ(asked_, 2);
  role_works_ = true;
  EXPECT_EQ(run(context_, credentials.get())->access_key_id, "R3");
  credentials.expire();
  EXPECT_EQ(run(context_, credentials.get())->access_key_id, "R4");
}

TEST_F(Chain, SaysWhereItLooked) {
  auto credentials = chain({{"AWS_EC2_METADATA_DISABLED", "true"}});
  const auto none = run(context_, credentials.get());
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("no AWS credentials"), std::string::npos);
}

}  // namespace
}  // namespace spotter::act
