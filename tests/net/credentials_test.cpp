#include "agent/aws/aws_client.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/settings/credentials.hpp"
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
  wire::sign(request.headers, request.method, request.url, request.body, example,
             {service, "us-west-2", wire::parse_rfc3339("2026-11-21T10:15:30Z").value()});
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
      with({{"AWS_ENDPOINT_URL", "http://all"}, {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "True"}});
  EXPECT_EQ(endpoint(ignored, "ec2", region), "https://ec2.us-west-2.amazonaws.com");
}

TEST(SharedConfig, ReadsOneProfile) {
  const std::string text =
      "# a comment\n[default]\naws_access_key_id = A\n  nested = x\n\n[ profile two "
      "]\nregion=r\r\n";
  EXPECT_EQ(parse_sections(text)["default"], (Profile{{"aws_access_key_id", "A nested = x"}}));
  EXPECT_EQ(parse_sections(text)["profile two"], (Profile{{"region", "r"}}));
  EXPECT_TRUE(parse_sections(text)["none"].empty());
  EXPECT_TRUE(parse_sections("[").empty());
}

// A line goes on the one before it only where it is indented deeper.
TEST(SharedConfig, MayBeIndentedAsAWhole) {
  auto sections = parse_sections(
      "  [default]\n  aws_access_key_id = A\n  s3 =\n      region = n\n  output = o\n"
      "[profile b]\n\tx = 1\n\t  more\n y = 2\n");
  EXPECT_EQ(sections["default"],
            (Profile{{"aws_access_key_id", "A"}, {"s3", ""}, {"s3.region", "n"}, {"output", "o"}}));
  EXPECT_EQ(sections["profile b"], (Profile{{"x", "1 more"}, {"y", "2"}}));
}

// As botocore's configparser has it.
TEST(SharedConfig, HasQuotedNamesColonsAndNestedSettings) {
  const std::string text =
      "[profile \"my dev\"]\nRegion: r\ns3 =\n  region = nested\n; no\n  # no\n"
      "credential_process = /bin/p\n   --all\nvalue = a # b\n[preview]\nx = y\n";
  EXPECT_EQ(parse_sections(text)["profile my dev"], (Profile{{"region", "r"},
                                                             {"s3", ""},
                                                             {"s3.region", "nested"},
                                                             {"credential_process", "/bin/p --all"},
                                                             {"value", "a # b"}}));
}

TEST(Words, AreThoseOfShlex) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(command_words(R"(/bin/echo {"A":1} '{"B": 2}' "c\" $d" e\ f '')"),
            (Words{"/bin/echo", "{A:1}", R"({"B": 2})", "c\" $d", "e f", ""}));
  EXPECT_EQ(command_words(R"("a\b")"), Words{"a\\b"});
  EXPECT_FALSE(command_words("'open"));
  EXPECT_FALSE(command_words("end\\"));
}

// A search with files of its own, answered by hand.
class Search : public testing::Test {
 protected:
  void SetUp() override {
    home_ = testing::TempDir() + "spotter-search-" + std::to_string(getpid());
    std::filesystem::create_directories(home_ + "/.aws/sso/cache");
    variables_ = {{"HOME", home_}, {"AWS_REGION", "eu-west-1"}};
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(home_ + "/" + name) << text;
  }
  CredentialSearch search(const std::string& profile = "") {
    if (!profile.empty()) variables_["AWS_PROFILE"] = profile;
    return CredentialSearch(Environment(variables_), now_);
  }
  // Its key's id, or why there is none.
  static std::string key_of(const CredentialSearch& search) {
    const auto result = search.result();
    if (!result) return result.error().message;
    return *result ? (*result)->access_key_id : "none";
  }
  std::string found(const std::string& profile = "") {
    auto made = search(profile);
    return made.next() ? "asks" : key_of(made);
  }
  static std::string of_sts(const std::string& action, const std::string& key) {
    return "<" + action + "Response><" + action + "Result><Credentials><AccessKeyId>" + key +
           "</AccessKeyId><SecretAccessKey>S</SecretAccessKey><SessionToken>T</SessionToken>"
           "<Expiration>2026-11-21T11:15:30Z</Expiration></Credentials></" +
           action + "Result></" + action + "Response>";
  }

  std::string home_;
  Variables variables_;
  wire::WallTime now_ = wire::parse_rfc3339("2026-11-21T10:15:30Z").value();
};

constexpr const char* chained =
    "[profile base]\naws_access_key_id=BASE\naws_secret_access_key=S\n"
    "[profile middle]\nrole_arn = arn:middle\nsource_profile = base\n"
    "[profile top]\nrole_arn = arn:top\nsource_profile = middle\nexternal_id = x\n"
    "duration_seconds = 7200\nrole_session_name = me\n";

TEST_F(Search, TakesTheProfileThatAVariableNames) {
  write(".aws/credentials",
        "[default]\naws_access_key_id=D\naws_secret_access_key=S\n"
        "[ci]\naws_access_key_id=C\naws_secret_access_key=S\n");
  write(".aws/config", "[profile ci]\naws_access_key_id=F\naws_secret_access_key=S\n");
  EXPECT_EQ(found(), "D");
  EXPECT_EQ(found("ci"), "C") << "the credentials file has precedence";
  EXPECT_NE(found("gone").find("AWS_PROFILE names gone, which neither"), std::string::npos);
  variables_["AWS_ACCESS_KEY_ID"] = "V";
  variables_["AWS_SECRET_ACCESS_KEY"] = "S";
  EXPECT_EQ(found("gone"), "V");
}

// Whoever meant those keys must not become somebody else.
TEST_F(Search, StopsAtKeysThatAreNotWholeOrOver) {
  const std::string whole = "aws_access_key_id=D\naws_secret_access_key=S\n";
  write(".aws/credentials", "[default]\n" + whole + "[half]\naws_access_key_id=H\n");
  write(".aws/config", "[profile half]\ncredential_process = /bin/keys\n" + whole +
                           "[profile id]\naws_access_key_id=I\n"
                           "[profile of]\nrole_arn = r\nsource_profile = id\n");
  for (const char* profile : {"half", "id", "of"})
    EXPECT_NE(found(profile).find("partial credentials in profile"), std::string::npos) << profile;
  EXPECT_NE(found("half").find("profile half of ~/.aws/credentials"), std::string::npos);
  variables_.erase("AWS_PROFILE");
  variables_["AWS_SECRET_ACCESS_KEY"] = "S";
  EXPECT_EQ(found(), "D") << "a secret alone is nobody's";
  variables_["AWS_ACCESS_KEY_ID"] = "V";
  for (const auto& [end, what] :
       {std::pair{"2026-11-21T10:15:31+00:00", "V"}, std::pair{"", "V"},
        std::pair{
            "2026-11-21 10:15:30+00:00",
            "the keys of the environment (AWS_ACCESS_KEY_ID) have expired at "
            "2026-11-21T10:15:30Z by this machine's clock, which says 2026-11-21T10:15:30Z"}}) {
    variables_["AWS_CREDENTIAL_EXPIRATION"] = end;
    EXPECT_EQ(found(), what);
  }
  variables_["AWS_SECRET_ACCESS_KEY"] = "";
  EXPECT_NE(found().find("partial credentials in the environment"), std::string::npos);
}

TEST_F(Search, ReadsVariablesAsBotocoreDoes) {
  const std::string keys = "[default]\naws_access_key_id=D\naws_secret_access_key=S\n";
  write("other", keys + "aws_security_token=old\naws_session_token=new\n");
  variables_["DEEP"] = home_;
  for (const char* path : {"$DEEP/other", "${HOME}/other", "~/other"}) {
    variables_["AWS_CONFIG_FILE"] = path;
    EXPECT_EQ(found(), "D") << path;
  }
  EXPECT_EQ(search().result().value()->session_token, "old");
  variables_["AWS_CONFIG_FILE"] = "${NONE}/$/${HOME";
  variables_["AWS_EC2_METADATA_DISABLED"] = "True";
  EXPECT_EQ(found(), "none");
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1/";
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = home_ + "/gone";
  EXPECT_NE(found().find("there is no token in " + home_ + "/gone"), std::string::npos);
}

TEST_F(Search, TakesRolesOneAfterTheOther) {
  write(".aws/config", chained);
  auto roles = search("top");
  auto first = roles.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->url, "https://sts.eu-west-1.amazonaws.com/");
  EXPECT_NE(first->body.find("RoleArn=arn%3Amiddle"), std::string::npos) << first->body;
  EXPECT_NE(first->headers.back().second.find("Credential=BASE/20261121/eu-west-1/sts/"),
            std::string::npos);
  roles.take({.status = 503});
  ASSERT_TRUE(roles.next()) << "what passes is asked again";
  roles.take({.status = 200, .body = of_sts("AssumeRole", "MIDDLE")});
  auto second = roles.next();
  ASSERT_TRUE(second);
  for (const char* part : {"RoleArn=arn%3Atop", "ExternalId=x", "DurationSeconds=7200",
                           "RoleSessionName=me", "Action=AssumeRole&"})
    EXPECT_NE(second->body.find(part), std::string::npos) << second->body;
  EXPECT_NE(second->headers.back().second.find("Credential=MIDDLE/"), std::string::npos);
  roles.take({.status = 200, .body = of_sts("AssumeRole", "TOP")});
  EXPECT_FALSE(roles.next());
  EXPECT_EQ(key_of(roles), "TOP");
}

TEST_F(Search, SaysWhatIsWrongWithARole) {
  write(".aws/config", std::string(chained) +
                           "[profile a]\nrole_arn = r\nsource_profile = b\n"
                           "[profile b]\nrole_arn = r\nsource_profile = a\n"
                           "[profile none]\nrole_arn = r\n[profile empty]\nregion = x\n"
                           "[profile of]\nrole_arn = r\nsource_profile = empty\n"
                           "[profile mfa]\nrole_arn = r\nsource_profile = base\nmfa_serial = m\n");
  for (const auto& [profile, why] :
       {std::pair{"a", "leads back to"}, std::pair{"none", "either source_profile or"},
        std::pair{"of", "empty has no credentials"}, std::pair{"mfa", "MFA code"}})
    EXPECT_NE(found(profile).find(why), std::string::npos) << found(profile);
  auto refused = search("middle");
  ASSERT_TRUE(refused.next());
  refused.take({.status = 403,
                .body = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message>"
                        "</Error></ErrorResponse>"});
  EXPECT_FALSE(refused.next());
  EXPECT_EQ(key_of(refused),
            "profile middle: the role arn:middle: HTTP 403, AccessDenied: not you");
}

TEST_F(Search, SignsByTheClockOfTheServerThatRefuses) {
  write(".aws/config", chained);
  auto role = search("middle");
  ASSERT_TRUE(role.next());
  role.take({.status = 403, .date = now_ + 20min});
  auto again = role.next();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->headers[1],
            (std::pair<std::string, std::string>("x-amz-date", "20261121T103530Z")));
  role.take({.status = 403, .date = now_ + 20min});
  EXPECT_FALSE(role.next());
}

TEST_F(Search, GoesOnFromTheSourcesThatAreNamed) {
  write(".aws/config",
        "[profile i]\nrole_arn = r\ncredential_source = Ec2InstanceMetadata\n"
        "[profile c]\nrole_arn = r\ncredential_source = EcsContainer\n"
        "[profile e]\nrole_arn = r\ncredential_source = Environment\n");
  auto instance = search("i");
  auto asked = instance.next();
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->kind, Question::Kind::InstanceRole);
  instance.take({.role = wire::Credentials{"I", "S", "T", now_ + 1h}});
  asked = instance.next();
  ASSERT_TRUE(asked);
  EXPECT_NE(asked->headers.back().second.find("Credential=I/"), std::string::npos);
  auto without = search("i");
  ASSERT_TRUE(without.next());
  without.take({});
  EXPECT_NE(key_of(without).find("the instance's role: there is none"), std::string::npos);
  EXPECT_NE(found("c").find("this is no container"), std::string::npos);
  EXPECT_NE(found("e").find("AWS_ACCESS_KEY_ID is empty"), std::string::npos);
}

TEST_F(Search, ReadsTheWebIdentitysTokenEachTime) {
  write("token", "first\n");
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = home_ + "/token";
  EXPECT_NE(found().find("set AWS_ROLE_ARN"), std::string::npos);
  variables_["AWS_ROLE_ARN"] = "arn:pod";
  auto web = search();
  const auto asked = web.next();
  ASSERT_TRUE(asked);
  EXPECT_NE(asked->body.find("Action=AssumeRoleWithWebIdentity"), std::string::npos);
  EXPECT_NE(asked->body.find("WebIdentityToken=first"), std::string::npos);
  EXPECT_EQ(asked->headers.size(), 1U) << "it is not signed";
  web.take({.status = 200, .body = of_sts("AssumeRoleWithWebIdentity", "WEB")});
  EXPECT_EQ(key_of(web), "WEB");
  write("token", "");
  EXPECT_NE(found().find("there is no token in"), std::string::npos);
  // The same by a profile, as the source of another's role.
  variables_.erase("AWS_WEB_IDENTITY_TOKEN_FILE");
  variables_.erase("AWS_ROLE_ARN");
  write("token", "second");
  write(".aws/config", "[profile web]\nrole_arn = w\nweb_identity_token_file = " + home_ +
                           "/token\n[profile top]\nrole_arn = t\nsource_profile = web\n");
  auto top = search("top");
  EXPECT_NE(top.next()->body.find("WebIdentityToken=second"), std::string::npos);
}

// A server of one's own, as MinIO, stands in ~/.aws/config.
TEST_F(Search, FollowsTheProfilesEndpoints) {
  write(".aws/config",
        "[profile lab]\nservices = here\nendpoint_url = http://all/\n[services here]\ns3 =\n"
        "  endpoint_url = http://minio:9000\nauto_scaling =\n  endpoint_url = http://groups\n"
        "[profile off]\nendpoint_url = http://all\nignore_configured_endpoint_urls = true\n");
  const auto at = [&](const char* service) {
    return endpoint(Environment(variables_), service, Region("us-west-2"));
  };
  EXPECT_EQ(at("s3"), "https://s3.us-west-2.amazonaws.com");
  variables_["AWS_PROFILE"] = "lab";
  EXPECT_EQ(at("s3"), "http://minio:9000");
  EXPECT_EQ(at("autoscaling"), "http://groups");
  EXPECT_EQ(at("ec2"), "http://all");
  variables_["AWS_ENDPOINT_URL"] = "http://variable";
  EXPECT_EQ(at("s3"), "http://variable");
  variables_.erase("AWS_ENDPOINT_URL");
  variables_["AWS_PROFILE"] = "off";
  EXPECT_EQ(at("s3"), "https://s3.us-west-2.amazonaws.com");
}

TEST_F(Search, SignsInBySsoWithATokenThatIsValid) {
  const std::string session = "sso_account_id = 123456789012\nsso_role_name = Dev\n";
  const std::string at = "sso_start_url = https://corp\nsso_region = eu-central-1\n";
  write(".aws/config", "[profile new]\nsso_session = corp\n" + session + "[sso-session corp]\n" +
                           at + "[profile old]\n" + session + at + "[profile half]\n" + session);
  const std::string advice = "run `aws sso login --profile new`";
  EXPECT_NE(found("new").find("no token of SSO: " + advice), std::string::npos);
  EXPECT_NE(found("half").find("sso_start_url is missing"), std::string::npos);
  const auto token = [&](const std::string& of, const std::string& end) {
    // printf %s NAME | sha1sum
    const bool corp = of == "corp";
    write(std::string(".aws/sso/cache/") +
              (corp ? "ee0bfd2552fbd840c02cc48b6e823320543c450f"
                    : "17da54e8ec4ee05390f1915bb3ef5fea7ebd238e") +
              ".json",
          R"({"accessToken": "tok-)" + of + R"(", "expiresAt": ")" + end + "\"}");
  };
  token("corp", "2026-11-21T10:00:00Z");
  EXPECT_NE(
      found("new").find("its token has expired at 2026-11-21T10:00:00Z by this machine's clock, "
                        "which says 2026-11-21T10:15:30Z: " +
                        advice),
      std::string::npos);
  token("corp", "2026-11-21T11:00:00Z");
  token("https://corp", "2026-11-21T11:00:00UTC");
  for (const std::string profile : {"new", "old"}) {
    auto sso = search(profile);
    const auto asked = sso.next();
    ASSERT_TRUE(asked) << profile << ": " << key_of(sso);
    EXPECT_EQ(asked->url,
              "https://portal.sso.eu-central-1.amazonaws.com/federation/credentials?"
              "account_id=123456789012&role_name=Dev");
    EXPECT_EQ(asked->headers.front().second, profile == "new" ? "tok-corp" : "tok-https://corp");
    sso.take({.status = 200,
              .body = R"({"roleCredentials": {"accessKeyId": "SSO", "secretAccessKey": "S",
                          "sessionToken": "T", "expiration": 1795256130000}})"});
    EXPECT_EQ(key_of(sso), "SSO");
    EXPECT_EQ(sso.result().value()->expiration, wire::WallTime(1795256130s));
  }
  auto refused = search("new");
  ASSERT_TRUE(refused.next());
  refused.take({.status = 401});
  EXPECT_NE(key_of(refused).find(advice), std::string::npos);
}

// It goes as with botocore's SSOTokenProvider: a quarter of an hour ahead, by the client of the
// login.
TEST_F(Search, RefreshesATokenOfSsoWhereTheLoginLeftTheMeans) {
  write(".aws/config",
        "[profile new]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = Dev\n"
        "[sso-session corp]\nsso_start_url = https://corp\nsso_region = eu-central-1\n");
  const std::string cache = ".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json";
  const auto token = [&](const std::string& end, const std::string& client_end) {
    write(cache, R"({"accessToken": "old", "expiresAt": ")" + end +
                     R"(", "clientId": "C", "clientSecret": "S", "refreshToken": "R",
                        "registrationExpiresAt": ")" +
                     client_end + R"(", "startUrl": "u"})");
  };
  const std::string later = "2026-12-21T10:00:00Z";
  token("2026-11-21T10:00:00Z", later);
  auto sso = search("new");
  const auto asked = sso.next();
  ASSERT_TRUE(asked) << key_of(sso);
  EXPECT_EQ(asked->url, "https://oidc.eu-central-1.amazonaws.com/token");
  EXPECT_EQ(wire::parse_json_object(asked->body).value(),
            (wire::Json{{"grantType", "refresh_token"},
                        {"clientId", "C"},
                        {"clientSecret", "S"},
                        {"refreshToken", "R"}}));
  sso.take({.status = 200,
            .body = R"({"accessToken": "new", "expiresIn": 3600, "refreshToken": "R2"})"});
  ASSERT_TRUE(sso.refreshed());
  EXPECT_EQ(sso.refreshed()->path, home_ + "/" + cache);
  const auto kept = wire::parse_json_object(sso.refreshed()->text).value();
  EXPECT_EQ(kept["accessToken"], "new");
  EXPECT_EQ(kept["refreshToken"], "R2");
  EXPECT_EQ(kept["expiresAt"], wire::to_rfc3339(now_ + 1h));
  EXPECT_EQ(kept["clientId"], "C");
  const auto keys = sso.next();
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->headers.front().second, "new");

  const auto refused = [&](const std::string& end) {
    token(end, later);
    auto made = search("new");
    EXPECT_NE(made.next()->url.find("oidc"), std::string::npos);
    made.take({.status = 400, .body = R"({"error": "invalid_grant"})"});
    const auto next = made.next();
    EXPECT_FALSE(made.refreshed());
    return next ? next->headers.front().second : key_of(made);
  };
  EXPECT_EQ(refused(wire::to_rfc3339(now_ + 5min)), "old") << "it is valid still";
  const std::string why = refused("2026-11-21T10:00:00Z");
  EXPECT_NE(why.find(", and it was not refreshed (HTTP 400, invalid_grant): run `aws sso"),
            std::string::npos)
      << why;
  token(wire::to_rfc3339(now_ + 20min), later);
  EXPECT_EQ(search("new").next()->headers.front().second, "old") << "it is not time yet";
  token("2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z");
  EXPECT_NE(found("new").find("10:15:30Z: run"), std::string::npos)
      << "the client's registration is over";
}

TEST_F(Search, RunsACredentialProcessAndReadsWhatItSays) {
  write(".aws/config",
        "[profile p]\ncredential_process = /bin/keys --for 'a b'\n"
        "[profile login]\nlogin_session = x\n");
  auto program = search("p");
  const auto asked = program.next();
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->words, (std::vector<std::string>{"/bin/keys", "--for", "a b"}));
  program.take({.body = R"({"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "hunter2",
                            "SessionToken": "T", "Expiration": "2026-11-21T11:15:30Z"})"});
  EXPECT_EQ(key_of(program), "P");
  EXPECT_EQ(program.result().value()->session_token, "T");
  for (const char* end : {"null", R"("2026-11-21 11:15:30+00:00")"}) {
    auto other = search("p");
    ASSERT_TRUE(other.next());
    other.take({.body = R"({"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "S",
                            "SessionToken": null, "Expiration": )" +
                        std::string(end) + "}"});
    EXPECT_EQ(key_of(other), "P") << end;
  }
  const std::pair<act::Reply, const char*> wrong[] = {
      {{.status = 3, .errors = "no vault\n"}, "ended with status 3: no vault"},
      {{.body = R"({"Version": 2, "AccessKeyId": "P", "SecretAccessKey": "hunter2"})"},
       "Version is not 1"},
      {{.body = R"({"Version": 1, "SecretAccessKey": "hunter2"})"}, "AccessKeyId"},
      {{.body = R"({"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "hunter2",
                    "Expiration": "2026-11-21T10:15:30Z"})"},
       "has expired at 2026-11-21T10:15:30Z by this machine's clock, which says"},
      {{.body = "hunter2"}, "no JSON object"}};
  for (const auto& [reply, why] : wrong) {
    auto again = search("p");
    ASSERT_TRUE(again.next());
    again.take(reply);
    EXPECT_FALSE(again.next());
    EXPECT_NE(key_of(again).find(why), std::string::npos) << key_of(again);
    EXPECT_EQ(key_of(again).find("hunter2"), std::string::npos) << "a secret in a message";
  }
  EXPECT_NE(found("login").find("aws configure export-credentials --profile login"),
            std::string::npos);
}

TEST_F(Search, InAUnitBelievesNoFileThatAnotherUserMayWrite) {
  write(".aws/config", "[default]\ncredential_process = /bin/keys\n");
  variables_["SPOTTER_UNITS"] = "yes";
  EXPECT_EQ(found(), "asks");
  std::filesystem::permissions(home_ + "/.aws/config", std::filesystem::perms(0666));
  EXPECT_NE(found().find("another user's to write"), std::string::npos);
}

TEST(Endpoints, TakeTheRegionFromTheEnvironment) {
  EXPECT_EQ(configured_region(with({{"AWS_DEFAULT_REGION", "b"}, {"AWS_REGION", "a"}})),
            Region("a"));
  EXPECT_TRUE(configured_region(with({{"HOME", "/nonexistent"}})).empty());
}

class Chain : public testing::Test {
 protected:
  AwsClient client_of(Variables variables) {
    variables.emplace("HOME", "/nonexistent");
    variables.emplace("AWS_EC2_METADATA_SERVICE_ENDPOINT", role_.url());
    return AwsClient(http_, {.region = "us-west-2",
                             .environment = Environment(std::move(variables)),
                             .clock = [this] { return now_ + wrong_by_; }});
  }

  asio::io_context context_;
  io::HttpClient http_{context_};
  std::chrono::hours wrong_by_{0};
  wire::WallTime now_ = wire::parse_rfc3339("2026-11-21T10:15:30Z").value();
  net_test::RoleServer role_{context_, now_};
};

TEST_F(Chain, PrefersTheEnvironment) {
  auto client = client_of({{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "S"}});
  EXPECT_EQ(run(context_, client.credentials())->access_key_id, "A");
  EXPECT_EQ(role_.asked, 0);
}

TEST_F(Chain, AsksTheMetadataServiceThatTheProfileNames) {
  const std::string config = testing::TempDir() + "spotter-imds-" + std::to_string(getpid());
  std::ofstream(config) << "[default]\nec2_metadata_service_endpoint = " << role_.url() << "/\n";
  auto client = client_of({{"AWS_CONFIG_FILE", config}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", ""}});
  EXPECT_EQ(run(context_, client.credentials())->access_key_id, "R1");
  std::filesystem::remove(config);
}

TEST_F(Chain, AsksAContainersEndpointWithItsToken) {
  net_test::Server server(context_, [](const auto& request) {
    if (request["Authorization"] != "secret-token") return net_test::Reply{.status = 401};
    return net_test::Reply{.body = R"({"AccessKeyId":"C","SecretAccessKey":"S","Token":"T",
                             "Expiration":"2026-11-21T16:15:30Z"})"};
  });
  auto client = client_of({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/keys"},
                           {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret-token"}});
  EXPECT_EQ(run(context_, client.credentials())->access_key_id, "C");
  EXPECT_EQ(role_.asked, 0);
}

TEST_F(Chain, RunsAProgramAndAsksStsWithWhatItGives) {
  const std::string config = testing::TempDir() + "spotter-config-" + std::to_string(getpid());
  net_test::Server server(context_, [](const auto& request) {
    const bool good = std::string(request["Authorization"]).find("PROGRAM/") != std::string::npos;
    if (!good) return net_test::Reply{.status = 403};
    return net_test::Reply{
        .body =
            "<AssumeRoleResponse><AssumeRoleResult><Credentials>"
            "<AccessKeyId>ROLE</AccessKeyId><SecretAccessKey>S</SecretAccessKey>"
            "<SessionToken>T</SessionToken><Expiration>2026-11-21T16:15:30Z"
            "</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"};
  });
  std::ofstream(config) << "[default]\nrole_arn = r\nsource_profile = p\n[profile p]\n"
                           "credential_process = /bin/echo '{\"Version\": 1, "
                           "\"AccessKeyId\": \"PROGRAM\", \"SecretAccessKey\": \"S\"}'\n";
  auto client = client_of({{"AWS_CONFIG_FILE", config}, {"AWS_ENDPOINT_URL", server.url()}});
  const auto keys = run(context_, client.credentials());
  std::filesystem::remove(config);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->access_key_id, "ROLE");
  EXPECT_EQ(role_.asked, 0);
}

TEST_F(Chain, TrustsNoStrangersEndpoint) {
  for (const char* url : {"http://example.com/keys", "http://127.0.0.1@example.com/", "ftp://x"}) {
    auto client = client_of({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url}});
    EXPECT_FALSE(run(context_, client.credentials())) << url;
  }
}

TEST_F(Chain, RefreshesBeforeExpiryAndForgivesAFailureUntilThen) {
  auto client = client_of({});
  EXPECT_EQ(run(context_, client.credentials())->access_key_id, "R1");
  now_ += 54min;
  EXPECT_EQ(run(context_, client.credentials())->access_key_id, "R1");
  EXPECT_EQ(role_.asked, 1);
  now_ += 2min;
  role_.status = 500;
  EXPECT_EQ(run(context_, client.credentials())->access_key_id, "R1") << "while it asks";
  const auto until_asked = [&](int times) {
    context_.restart();
    for (int i = 0; i < 1000 && role_.asked < times; ++i) context_.run_one_for(10ms);
    ASSERT_EQ(role_.asked, times);
  };
  until_asked(2);
  role_.status = 200;
  EXPECT_EQ(run(context_, client.credentials())->access_key_id, "R1") << "it rests for a minute";
  std::string key;
  for (int i = 0; i < 1000 && key != "R3"; ++i) {
    now_ += 1s;
    context_.restart();
    context_.run_one_for(10ms);
    key = run(context_, client.credentials())->access_key_id;
  }
  EXPECT_EQ(key, "R3");
  EXPECT_EQ(role_.asked, 3);
}

TEST_F(Chain, TakesTheEndOfKeysByTheClockOfWhoeverGivesThem) {
  auto client = client_of({});
  wrong_by_ = 7h;
  role_.headers = {{"Date", "Sat, 21 Nov 2026 10:15:30 GMT"}};
  EXPECT_EQ(run(context_, client.credentials())->access_key_id, "R1");
  now_ += 54min;
  EXPECT_EQ(run(context_, client.credentials())->access_key_id, "R1");
  EXPECT_EQ(role_.asked, 1) << "good for an hour";
}

TEST_F(Chain, NamesTheClockWhereKeysComeExpired) {
  net_test::Server server(context_, [](const auto&) {
    return net_test::Reply{.body = R"({"AccessKeyId":"C","SecretAccessKey":"S","Token":"T",
                             "Expiration":"2026-11-21T09:15:30Z"})"};
  });
  auto client = client_of({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/keys"}});
  const auto none = run(context_, client.credentials());
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("clock right?"), std::string::npos) << none.error().message;
}

TEST_F(Chain, IsAskedOnceForAllWhoWait) {
  auto client = client_of({});
  std::vector<std::string> keys;
  const auto ask = [](AwsClient& from, std::vector<std::string>& to) -> asio::awaitable<void> {
    auto asking = from.credentials();
    const auto answer = co_await std::move(asking);
    to.push_back(answer ? answer->access_key_id : answer.error().message);
  };
  for (int i = 0; i < 2; ++i) asio::co_spawn(context_, ask(client, keys), asio::detached);
  while (keys.size() < 2) context_.run_one();
  EXPECT_EQ(keys, (std::vector<std::string>{"R1", "R1"}));
  EXPECT_EQ(role_.asked, 1);
}

TEST_F(Chain, SaysWhereItLooked) {
  auto client = client_of({{"AWS_EC2_METADATA_DISABLED", "true"}});
  const auto none = run(context_, client.credentials());
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("no AWS credentials"), std::string::npos);
}

}  // namespace
}  // namespace spotter::act
