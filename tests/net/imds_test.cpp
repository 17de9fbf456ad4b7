#include <gtest/gtest.h>

#include "agent/aws/imds_client.hpp"
#include "tests/net/server.hpp"

namespace spotter::sense {
namespace {

using namespace std::chrono_literals;
using net_test::Reply;
using net_test::run;
using Kind = CallError::Kind;

// Strictly version 2: a GET without the current token is a 401.
class Metadata {
 public:
  Reply answer(const net_test::Request& request) {
    if (request.target() == "/latest/api/token") {
      if (request.method_string() != "PUT") return {.status = 405};
      if (request["X-aws-ec2-metadata-token-ttl-seconds"] != "21600") return {.status = 400};
      ++tokens;
      if (token_status != 200) return {.status = token_status};
      if (broken_token) return {.body = *broken_token};
      return {.body = token()};
    }
    if (request["X-aws-ec2-metadata-token"] != token()) return refusal;
    if (trouble) return *trouble;
    const auto found = keys.find(std::string(request.target().substr(8)));
    if (found == keys.end()) return {.status = 404, .body = "<html>404</html>"};
    return {.body = found->second, .headers = {{"Date", date}}};
  }
  std::string token() const { return "token-" + std::to_string(generation); }

  std::map<std::string, std::string> keys;
  std::string date = "Sat, 21 Nov 2026 10:15:30 GMT";
  std::optional<Reply> trouble;
  std::optional<std::string> broken_token;
  Reply refusal{.status = 401};
  int generation = 1;
  int tokens = 0;
  int token_status = 200;
};

class Imds : public testing::Test {
 protected:
  net_test::Server::Handler handler() {
    return [this](const net_test::Request& request) { return metadata_.answer(request); };
  }
  ImdsClient::Answer get() { return run(context_, client_.get("meta-data/instance-id")); }
  std::string body() {
    const auto answer = get();
    return answer && *answer ? (*answer)->body : "nothing";
  }

  asio::io_context context_;
  Metadata metadata_;
  std::unique_ptr<net_test::Server> server_ =
      std::make_unique<net_test::Server>(context_, handler());
  io::HttpClient http_{context_};
  ImdsClient client_{http_, {.endpoint = server_->url() + "/", .timeout = 100ms}};
};

TEST_F(Imds, AsksForOneTokenAndKeepsOneConnection) {
  metadata_.keys["meta-data/instance-id"] = "i-1";
  for (int number = 0; number < 5; ++number) EXPECT_EQ(body(), "i-1");
  EXPECT_EQ(metadata_.tokens, 1);
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(Imds, GetsANewTokenAfterA401) {
  metadata_.keys["meta-data/instance-id"] = "i-1";
  get();
  metadata_.generation = 2;
  EXPECT_EQ(body(), "i-1");
  EXPECT_EQ(metadata_.tokens, 2);
}

TEST_F(Imds, GivesUpOnA401ThatStays) {
  metadata_.trouble = Reply{.status = 401};
  EXPECT_EQ(get().error().kind, Kind::Transient);
  EXPECT_EQ(get().error().kind, Kind::Transient);
  EXPECT_EQ(server_->requests().size(), 4u);
}

TEST_F(Imds, NeverAsksWithoutAToken) {
  metadata_.keys["meta-data/instance-id"] = "i-1";
  for (const int status : {403, 404, 500}) {
    metadata_.token_status = status;
    const auto answer = get();
    ASSERT_FALSE(answer) << status;
    EXPECT_EQ(answer.error().kind, status == 403 ? Kind::Permission : Kind::Transient);
    EXPECT_FALSE(answer.error().message.empty());
  }
  for (const auto& request : server_->requests()) EXPECT_EQ(request.method_string(), "PUT");
}

// A broken token that was kept would hide every notice: with it there is never an answer.
TEST_F(Imds, ForgetsABrokenToken) {
  metadata_.keys["meta-data/instance-id"] = "i-1";
  for (const std::string& broken : {std::string("\x7f{[\"<<<\x01"), std::string("two lines\r\n"),
                                    std::string("token-"), std::string()}) {
    for (const Reply& refusal : {Reply{.status = 401}, Reply{.status = 400}, Reply{.drop = true}}) {
      metadata_.refusal = refusal;
      metadata_.broken_token = broken;
      metadata_.generation += 1;  // and the token of before is no longer valid
      for (int asked = 0; asked < 3; ++asked)
        EXPECT_EQ(get().error().kind, Kind::Transient) << broken;
      metadata_.broken_token.reset();
      EXPECT_EQ(body(), "i-1") << broken;
    }
  }
}

TEST_F(Imds, CarriesOnThroughTrouble) {
  metadata_.keys["meta-data/instance-id"] = "i-1";
  for (const Reply& trouble : {Reply{.status = 429}, Reply{.status = 500}, Reply{.status = 503},
                               Reply{.hang = true}, Reply{.drop = true}}) {
    metadata_.trouble = trouble;
    const auto answer = get();
    ASSERT_FALSE(answer) << trouble.status;
    EXPECT_EQ(answer.error().kind, Kind::Transient) << trouble.status;
    EXPECT_FALSE(answer.error().message.empty());
    metadata_.trouble.reset();
    EXPECT_EQ(body(), "i-1");
  }
}

TEST_F(Imds, SurvivesARestartOfTheService) {
  metadata_.keys["meta-data/instance-id"] = "i-1";
  get();
  const auto port = server_->port();
  server_.reset();
  EXPECT_EQ(get().error().kind, Kind::Transient);
  metadata_.generation = 2;
  server_ = std::make_unique<net_test::Server>(context_, handler(), port);
  EXPECT_EQ(body(), "i-1");
}

TEST_F(Imds, TellsAbsentFromDisabled) {
  EXPECT_FALSE(run(context_, client_.spot_action()).value());
  metadata_.trouble = Reply{.status = 403};
  EXPECT_EQ(run(context_, client_.spot_action()).error().kind, Kind::Permission);
}

TEST_F(Imds, ReckonsTheDeadlineFromTheAnswersOwnDate) {
  metadata_.keys["meta-data/spot/instance-action"] =
      R"({"action": "stop", "time": "2026-11-21T10:17:18Z"})";
  const auto action = run(context_, client_.spot_action());
  ASSERT_TRUE(action && *action);
  EXPECT_EQ((*action)->action, InterruptionAction::Stop);
  EXPECT_EQ((*action)->remaining, 108s);
  EXPECT_GT((*action)->received_at, Time{});
  EXPECT_EQ((*action)->deadline(), (*action)->received_at + 108s);
}

TEST_F(Imds, CallsHalfAnAnswerUnreadable) {
  metadata_.keys["meta-data/spot/instance-action"] = R"({"action": "terminate", "ti)";
  metadata_.keys["dynamic/instance-identity/document"] = R"({"instanceId")";
  EXPECT_EQ(run(context_, client_.spot_action()).error().kind, Kind::Unreadable);
  EXPECT_EQ(run(context_, client_.identity()).error().kind, Kind::Unreadable);
}

TEST_F(Imds, ReadsTheRest) {
  metadata_.keys["meta-data/events/recommendations/rebalance"] =
      R"({"noticeTime": "2026-11-21T10:15:30Z"})";
  metadata_.keys["meta-data/autoscaling/target-lifecycle-state"] = "Terminated";
  EXPECT_TRUE(run(context_, client_.rebalance()).value());
  EXPECT_EQ(run(context_, client_.lifecycle_state()).value(), wire::LifecycleState::Terminated);
}

}  // namespace
}  // namespace spotter::sense
