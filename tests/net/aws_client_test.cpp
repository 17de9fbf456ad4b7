#include "agent/aws/aws_client.hpp"

#include <gtest/gtest.h>

#include <array>

#include "agent/aws/formats/ec2_places.hpp"
#include "tests/net/server.hpp"

namespace spotter::act {
namespace {

using namespace std::chrono_literals;
using net_test::Reply;
using net_test::run;
using Kind = CallError::Kind;

Reply refusal(int status, const std::string& code) {
  return {
      .status = status,
      .body = "<Response><Errors><Error><Code>" + code +
              "</Code><Message>m</Message></Error></Errors><RequestID>r</RequestID></Response>"};
}

const std::string no_volumes =
    "<DescribeVolumesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><volumeSet/>"
    "</DescribeVolumesResponse>";
const std::string yes = "<DeleteVolumeResponse><return>true</return></DeleteVolumeResponse>";

class Aws : public testing::Test {
 protected:
  // Answers from the script, its last line for ever.
  Reply next(const net_test::Request&) {
    const Reply reply = script_.front();
    if (script_.size() > 1) script_.erase(script_.begin());
    return reply;
  }
  AwsSettings settings() {
    AwsSettings settings{.region = "us-west-2", .environment = environment()};
    settings.retry.transient_base = settings.retry.throttled_base = 1ms;
    settings.clock = [this] { return clock_; };
    return settings;
  }
  Environment environment() {
    return Environment(std::map<std::string, std::string, std::less<>>{
        {"AWS_ENDPOINT_URL_EC2", server_.url()},
        {"AWS_ENDPOINT_URL_SSM", server_.url()},
        {"AWS_EC2_METADATA_SERVICE_ENDPOINT", role_.url()},
        {"HOME", "/nonexistent"}});
  }
  template <class Request>
  auto call(Request request, Duration deadline = 5s) {
    return run(context_, client_.call(std::move(request), deadline));
  }

  asio::io_context context_;
  std::vector<Reply> script_;
  wire::WallTime clock_ = wire::parse_rfc3339("2026-11-21T10:15:30Z").value();
  net_test::Server server_{context_, [this](const auto& request) { return next(request); }};
  io::HttpClient http_{context_};
  net_test::RoleServer role_{context_, clock_};
  AwsClient client_{http_, settings()};
};

TEST_F(Aws, SignsAndSendsAQuery) {
  script_ = {{.body = no_volumes}};
  const auto page = call(wire::DescribeVolumes{.volumes = {"vol-1"}});
  ASSERT_TRUE(page) << page.error().message;
  const auto& request = server_.requests().at(0);
  EXPECT_EQ(request.body(), "Action=DescribeVolumes&Version=2016-11-15&VolumeId.1=vol-1");
  EXPECT_EQ(request["X-Amz-Date"], "20261121T101530Z");
  EXPECT_EQ(request["X-Amz-Security-Token"], "token");
  EXPECT_NE(request["Authorization"].find("/20261121/us-west-2/ec2/aws4_request"),
            std::string::npos);
}

TEST_F(Aws, RetriesThrottlingOfAnyCall) {
  script_ = {refusal(503, "RequestLimitExceeded"), {.body = yes}};
  EXPECT_TRUE(call(wire::DeleteVolume{.volume = "vol-1"}));
  EXPECT_EQ(server_.requests().size(), 2u);
}

TEST_F(Aws, GivesUpAfterTheLastAttempt) {
  script_ = {refusal(503, "RequestLimitExceeded")};
  const auto error = call(wire::DeleteVolume{.volume = "vol-1"}).error();
  EXPECT_EQ(error.kind, Kind::Throttled);
  EXPECT_EQ(error.attempts, 3);
  EXPECT_EQ(error.action, "DeleteVolume");
  EXPECT_EQ(server_.requests().size(), 3u);
}

TEST_F(Aws, RetriesALostAnswerOfARead) {
  script_ = {{.drop = true}, refusal(500, "InternalError"), {.body = no_volumes}};
  EXPECT_TRUE(call(wire::DescribeVolumes{}));
  EXPECT_EQ(server_.requests().size(), 3u);
}

TEST_F(Aws, NeverRepeatsAMutationWhoseAnswerWasLost) {
  for (const Reply& lost :
       {Reply{.drop = true}, refusal(500, "InternalError"), Reply{.status = 502},
        Reply{.hang = true}, Reply{.body = "<DeleteVolumeResponse><retu"}}) {
    const auto before = server_.requests().size();
    script_ = {lost};
    const auto error = call(wire::DeleteVolume{.volume = "vol-1"}, 200ms).error();
    EXPECT_EQ(error.kind, Kind::Unknown) << lost.status;
    EXPECT_TRUE(error.unsettled());
    EXPECT_EQ(server_.requests().size(), before + 1) << lost.status;
  }
}

TEST_F(Aws, NeverRepeatsAMutationOverAConnectionThatDiedWhileIdle) {
  script_ = {{.body = no_volumes}, {.drop = true}};
  ASSERT_TRUE(call(wire::DescribeVolumes{}));
  EXPECT_EQ(call(wire::DeleteVolume{.volume = "vol-1"}).error().kind, Kind::Unknown);
  EXPECT_EQ(server_.requests().size(), 2u);
}

TEST_F(Aws, RepeatsAMutationThatCarriesAToken) {
  script_ = {{.drop = true}, refusal(400, "InvalidParameterValue")};
  EXPECT_EQ(call(wire::CreateVolume{.client_token = "c"}).error().kind, Kind::Other);
  EXPECT_EQ(server_.requests().size(), 2u);
  script_ = {{.drop = true}, refusal(503, "RequestLimitExceeded")};
  EXPECT_EQ(call(wire::CreateVolume{.client_token = "d"}).error().kind, Kind::Unknown);
}

TEST_F(Aws, ClassifiesRefusalsWithoutRetrying) {
  const std::vector<std::tuple<int, std::string, Kind>> cases{
      {400, "InvalidVolume.NotFound", Kind::NotFound},
      {403, "UnauthorizedOperation", Kind::Permission},
      {412, "DryRunOperation", Kind::DryRun},
      {400, "IncorrectState", Kind::Other}};
  for (const auto& [status, code, kind] : cases) {
    const auto before = server_.requests().size();
    script_ = {refusal(status, code)};
    const auto error = call(wire::DeleteVolume{.volume = "vol-1"}).error();
    EXPECT_EQ(error.kind, kind) << code;
    EXPECT_EQ(error.code, code);
    EXPECT_EQ(server_.requests().size(), before + 1);
  }
}

TEST_F(Aws, FetchesFreshCredentialsOnce) {
  script_ = {refusal(400, "ExpiredToken"), {.body = no_volumes}};
  EXPECT_TRUE(call(wire::DescribeVolumes{}));
  EXPECT_EQ(role_.asked, 2);
  script_ = {refusal(400, "ExpiredToken")};
  EXPECT_EQ(call(wire::DescribeVolumes{}).error().kind, Kind::ExpiredCredentials);
  EXPECT_EQ(role_.asked, 3);
}

TEST_F(Aws, LearnsTheTimeFromTheRefusal) {
  Reply skewed = refusal(401, "AuthFailure");
  skewed.headers.emplace_back("Date", "Sat, 21 Nov 2026 12:00:00 GMT");
  script_ = {skewed, {.body = no_volumes}};
  EXPECT_TRUE(call(wire::DescribeVolumes{}));
  EXPECT_EQ(server_.requests().at(1)["X-Amz-Date"], "20261121T120000Z");
  script_ = {skewed};  // now the time is right, so the keys are wrong
  EXPECT_EQ(call(wire::DescribeVolumes{}).error().kind, Kind::Permission);
  EXPECT_EQ(server_.requests().size(), 3u);
}

TEST_F(Aws, KnowsTheTimeThatEachAnswerSays) {
  EXPECT_EQ(client_.aws_time(), clock_) << "nobody has said another one";
  const auto time_after = [&](const char* date) {
    Reply reply{.body = no_volumes};
    reply.headers.emplace_back("Date", date);
    script_ = {reply};
    EXPECT_TRUE(call(wire::DescribeVolumes{}));
    return wire::to_rfc3339(client_.aws_time());
  };
  EXPECT_EQ(time_after("Sat, 21 Nov 2026 10:15:27 GMT"), "2026-11-21T10:15:30Z") << "on its way";
  EXPECT_EQ(time_after("Sat, 21 Nov 2026 12:00:00 GMT"), "2026-11-21T12:00:00Z");
  EXPECT_EQ(time_after("Sat, 21 Nov 2026 11:59:59 GMT"), "2026-11-21T12:00:00Z");
  clock_ += 1h;  // was set right, in part
  EXPECT_EQ(time_after("Sat, 21 Nov 2026 12:00:09 GMT"), "2026-11-21T12:00:09Z");
  EXPECT_EQ(time_after("yesterday"), "2026-11-21T12:00:09Z");
}

TEST_F(Aws, FollowsThePages) {
  const std::string item =
      "<item><subnetId>subnet-1</subnetId><availabilityZone>us-west-2a</availabilityZone>"
      "<availableIpAddressCount>9</availableIpAddressCount></item>";
  const auto page = [&](const std::string& rest) {
    return Reply{.body = "<DescribeSubnetsResponse><subnetSet>" + item + "</subnetSet>" + rest +
                         "</DescribeSubnetsResponse>"};
  };
  script_ = {page("<nextToken>two</nextToken>"), page("")};
  const auto all = run(context_, client_.call_all(wire::DescribeSubnets{}, 5s));
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->items.size(), 2u);
  EXPECT_NE(server_.requests().at(1).body().find("NextToken=two"), std::string::npos);
}

// One after the other, or in a circle: a handful of questions show it, not a thousand.
TEST_F(Aws, EndsAListingWhoseTokensRepeat) {
  const auto page = [](const char* next) {
    return Reply{.body = "<DescribeSubnetsResponse><subnetSet/><nextToken>" + std::string(next) +
                         "</nextToken></DescribeSubnetsResponse>"};
  };
  for (const std::size_t circle : {1U, 3U}) {
    for (int i = 0; i < 1000; ++i)
      script_.push_back(page(std::array{"a", "b", "c"}[static_cast<std::size_t>(i) % circle]));
    const auto before = server_.requests().size();
    const auto all = run(context_, client_.call_all(wire::DescribeSubnets{}, 5s));
    ASSERT_FALSE(all);
    EXPECT_NE(all.error().message.find("goes round in a circle"), std::string::npos)
        << all.error().message;
    EXPECT_LE(server_.requests().size() - before, 3 * circle + 1);
    script_.clear();
  }
}

TEST_F(Aws, SaysWhenThereAreNoCredentials) {
  role_.name.clear();
  const auto answer = run(context_, client_.call(wire::DescribeVolumes{}, 5s));
  EXPECT_EQ(answer.error().kind, Kind::NoCredentials);
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(Aws, ReadsAParameter) {
  script_ = {{.body = R"({"Parameter":{"Name":"/k","Type":"SecureString","Value":"s3cret"}})"}};
  EXPECT_EQ(call(wire::GetParameter{"/k"}).value(), "s3cret");
  EXPECT_EQ(server_.requests().at(0)["X-Amz-Target"], "AmazonSSM.GetParameter");
}

}  // namespace
}  // namespace spotter::act
