#include "tests/emulator/sigv4.hpp"

#include <gtest/gtest.h>

namespace spotter::emulator {
namespace {

// AWS's published suite (aws-sig-v4-test-suite): one key, one instant, one region.
constexpr const char* documented_secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
constexpr const char* timestamp = "20150830T123600Z";

struct Vector {
  const char* name;
  HttpRequest request;
  std::vector<std::string> signed_headers;
  const char* signature;
  const char* service = "service";
};

const Headers plain = {{"host", "example.amazonaws.com"}, {"x-amz-date", timestamp}};

const std::vector<std::string> usual = {"host", "x-amz-date"};

std::vector<Vector> paths_and_queries() {
  return {
      {"get-vanilla",
       {"GET", "/", plain, ""},
       usual,
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-key-case",
       {"GET", "/?Param2=value2&Param1=value1", plain, ""},
       usual,
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-unreserved",
       {"GET", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", plain, ""},
       usual,
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
      {"get-utf8",
       {"GET", "/\u1234", plain, ""},
       usual,
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"get-vanilla-utf8-query",
       {"GET", "/?\u1234=bar", plain, ""},
       usual,
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
  };
}

std::vector<Vector> headers_and_bodies() {
  return {
      {"get-header-value-trim",
       {"GET",
        "/",
        {{"host", "example.amazonaws.com"},
         {"my-header1", " value1"},
         {"my-header2", " \"a   b   c\""},
         {"x-amz-date", timestamp}},
        ""},
       {"host", "my-header1", "my-header2", "x-amz-date"},
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"get-header-key-duplicate",
       {"GET",
        "/",
        {{"host", "example.amazonaws.com"},
         {"my-header1", "value2"},
         {"my-header1", "value2"},
         {"my-header1", "value1"},
         {"x-amz-date", timestamp}},
        ""},
       {"host", "my-header1", "x-amz-date"},
       "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
      {"post-vanilla",
       {"POST", "/", plain, ""},
       usual,
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"post-x-www-form-urlencoded",
       {"POST",
        "/",
        {{"content-type", "application/x-www-form-urlencoded"},
         {"host", "example.amazonaws.com"},
         {"x-amz-date", timestamp}},
        "Param1=value1"},
       {"content-type", "host", "x-amz-date"},
       "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
      // The worked example of AWS's guide, "Create a signed request".
      {"iam-list-users",
       {"GET",
        "/?Action=ListUsers&Version=2010-05-08",
        {{"content-type", "application/x-www-form-urlencoded; charset=utf-8"},
         {"host", "iam.amazonaws.com"},
         {"x-amz-date", timestamp}},
        ""},
       {"content-type", "host", "x-amz-date"},
       "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
       "iam"},
  };
}

Authorization authorization_of(const Vector& vector) {
  return {"AKIDEXAMPLE", "20150830", "us-east-1", vector.service, vector.signed_headers, ""};
}

TEST(Sigv4, GivesTheSignaturesOfTheSuiteOfAws) {
  for (const auto& vectors : {paths_and_queries(), headers_and_bodies()}) {
    for (const auto& vector : vectors) {
      EXPECT_EQ(expected_signature(vector.request, authorization_of(vector), timestamp,
                                   documented_secret),
                vector.signature)
          << vector.name << "\n"
          << canonical_request(vector.request, authorization_of(vector));
    }
  }
}

class Verify : public ::testing::Test {
 protected:
  HttpRequest request_ = {"POST", "/", plain, "Action=DescribeVolumes"};
  Verification rules_{"us-east-1", "ec2", {}, std::chrono::seconds{300}, {}};
  std::string token_;
  std::string secret_ = documented_secret;

  void SetUp() override {
    using namespace std::chrono;
    rules_.now = {sys_days{year{2015} / 8 / 30} + hours{12} + minutes{36}};
    rules_.key = [this](std::string_view key) -> std::optional<SigningKey> {
      if (key != "AKIDEXAMPLE") return std::nullopt;
      return SigningKey{documented_secret, token_, "user"};
    };
  }
  void sign(const std::string& key = "AKIDEXAMPLE") {
    std::vector<std::string> names;
    for (const auto& [name, value] : request_.headers) names.push_back(name);
    const Authorization authorization{key, "20150830", "us-east-1", "ec2", names, ""};
    std::string list;
    for (const auto& name : names) list += (list.empty() ? "" : ";") + name;
    request_.headers.emplace_back(
        "authorization",
        "AWS4-HMAC-SHA256 Credential=" + key +
            "/20150830/us-east-1/ec2/aws4_request, SignedHeaders=" + list +
            ", Signature=" + expected_signature(request_, authorization, timestamp, secret_));
  }
  std::string outcome() {
    const auto verified = verify(request_, rules_);
    return verified ? *verified : verified.error().code;
  }
};

TEST_F(Verify, NamesTheOwnerOfTheKey) {
  sign();
  EXPECT_EQ(outcome(), "user");
}

TEST_F(Verify, RefusesWhatIsNotSigned) { EXPECT_EQ(outcome(), "MissingAuthenticationToken"); }

TEST_F(Verify, RefusesAnotherBodyThanTheSignedOne) {
  sign();
  request_.body += "&DryRun=true";
  EXPECT_EQ(outcome(), "SignatureDoesNotMatch");
}

TEST_F(Verify, RefusesAnotherSecret) {
  secret_ = "guessed";
  sign();
  EXPECT_EQ(outcome(), "SignatureDoesNotMatch");
}

TEST_F(Verify, RefusesAnUnknownKey) {
  sign("AKIDUNKNOWN");
  EXPECT_EQ(outcome(), "AuthFailure");
}

TEST_F(Verify, WantsTheSessionTokenOfATemporaryKey) {
  token_ = "token";
  sign();
  EXPECT_EQ(outcome(), "InvalidClientTokenId");
  request_.headers = plain;
  request_.headers.emplace_back("x-amz-security-token", "token");
  sign();
  EXPECT_EQ(outcome(), "user");
}

TEST_F(Verify, WantsEveryAmazonHeaderSigned) {
  sign();
  request_.headers.emplace_back("x-amz-target", "something");
  EXPECT_EQ(outcome(), "SignatureDoesNotMatch");
}

TEST_F(Verify, RefusesAClockThatIsMoreThanFiveMinutesOff) {
  sign();
  rules_.now[0] += std::chrono::seconds{300};
  EXPECT_EQ(outcome(), "user");
  rules_.now[0] += std::chrono::seconds{1};
  EXPECT_EQ(outcome(), "RequestExpired");
  rules_.now[0] -= std::chrono::seconds{602};
  EXPECT_EQ(outcome(), "RequestExpired");
}

TEST_F(Verify, RefusesAnotherRegion) {
  sign();
  rules_.region = "us-west-2";
  EXPECT_EQ(outcome(), "AuthFailure");
}

}  // namespace
}  // namespace spotter::emulator
