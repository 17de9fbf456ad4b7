// The trainer's SDKs ask for credentials: what they get, and when the keys are renewed.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "agent/service/act/trainer_keys.hpp"
#include "tests/net/server.hpp"

namespace spotter::act {
namespace {

using namespace std::chrono_literals;
using net_test::run;

class Keys : public testing::Test {
 protected:
  FreshKeys::Load source() {
    return [this]() -> asio::awaitable<Result<wire::Credentials, CallError>> {
      ++loaded_;
      asio::steady_timer timer(context_, 1ms);
      auto waiting = timer.async_wait(asio::use_awaitable);
      co_await std::move(waiting);
      if (failing_) {
        CallError error = *failing_;
        co_return tl::unexpected(std::move(error));
      }
      wire::Credentials keys{"K" + std::to_string(loaded_), "S", "T", now_ + 1h};
      co_return keys;
    };
  }
  std::string get() {
    auto keys = run(context_, keys_.get());
    return keys ? keys->access_key_id : "none: " + keys.error().message;
  }
  void settle() {
    asio::steady_timer timer(context_, 50ms);
    timer.async_wait([this](auto) { context_.stop(); });
    context_.restart();
    context_.run();
  }

  asio::io_context context_;
  wire::WallTime now_ = wire::parse_rfc3339("2026-11-21T10:15:30Z").value();
  int loaded_ = 0;
  std::optional<CallError> failing_;
  FreshKeys keys_{context_, source(), [this] { return now_; }};
};

TEST_F(Keys, AreLoadedOnceForAllWhoAskTogether) {
  int answered = 0;
  for (int i = 0; i < 10; ++i)
    asio::co_spawn(context_, keys_.get(),
                   [&](std::exception_ptr, Result<wire::Credentials, CallError> keys) {
                     EXPECT_EQ(keys.value().access_key_id, "K1");
                     ++answered;
                   });
  for (int i = 0; i < 100 && answered < 10; ++i) settle();
  EXPECT_EQ(answered, 10);
  EXPECT_EQ(loaded_, 1);
}

TEST_F(Keys, AreReplacedLongBeforeTheirEndAndNobodyWaits) {
  EXPECT_EQ(get(), "K1");
  now_ += 39min;
  EXPECT_EQ(get(), "K1");
  settle();
  EXPECT_EQ(loaded_, 1);
  now_ += 2min;
  EXPECT_EQ(get(), "K1");  // 19 minutes are enough for this call
  settle();
  EXPECT_EQ(get(), "K2");
}

TEST_F(Keys, AFailureIsNoneWhileTheOldOnesAreValid) {
  EXPECT_EQ(get(), "K1");
  failing_ = CallError{.kind = CallError::Kind::Transient, .message = "down"};
  now_ += 50min;
  EXPECT_EQ(get(), "K1");
  settle();
  EXPECT_EQ(get(), "K1");
  now_ += 11min;
  EXPECT_EQ(get(), "none: down");
  EXPECT_EQ(loaded_, 2) << "asked again at once";
}

class Endpoint : public Keys {
 protected:
  Endpoint() { std::filesystem::create_directories(place_); }
  ~Endpoint() override { std::filesystem::remove_all(place_); }

  std::unique_ptr<KeyEndpoint> endpoint() {
    return std::make_unique<KeyEndpoint>(context_, KeyEndpoint::Place{place_, "nobody"}, keys_,
                                         [] { return "arn:aws:iam::1:role/r"; });
  }
  io::HttpResponse ask(const std::string& url, const std::string& token,
                       const std::string& method = "GET") {
    io::HttpRequest request{.method = method, .url = url, .use_proxy = false};
    if (!token.empty()) request.headers.emplace_back("Authorization", token);
    return run(context_, http_.send(std::move(request))).value();
  }
  std::string file() const { return place_ + "/aws-token"; }
  std::string kept() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }

  io::HttpClient http_{context_};
  std::string place_ = testing::TempDir() + "keys-" + std::to_string(getpid());
};

TEST_F(Endpoint, GivesTheKeysToWhoHasTheTokenAndNothingToOthers) {
  const auto one = endpoint();
  auto opened = one->open();
  auto& variables = opened.value();
  const std::string url = variables[container_uri], token = variables[container_token];
  EXPECT_EQ(ask(url, token).body,
            R"({"AccessKeyId":"K1","Expiration":"2026-11-21T11:15:30Z",)"
            R"("RoleArn":"arn:aws:iam::1:role/r","SecretAccessKey":"S","Token":"T"})");
  const std::string nothing =
      R"({"code":"NotAuthorized","message":"the Authorization header is not the job's token"})";
  std::vector<std::string> all_wrong = {"", token + "0", token.substr(1), "x" + token};
  const std::size_t hyphen = token.find('-');
  for (const std::size_t at :
       {std::size_t{0}, hyphen, hyphen + 1, token.size() / 2, token.size() - 1}) {
    all_wrong.push_back(token);  // of the right length
    all_wrong.back()[at] = token[at] == '1' ? '2' : '1';
  }
  all_wrong.emplace_back(token.size(), 'a');
  for (const std::string& wrong : all_wrong) {
    for (const char* more : {"", "/below"}) {
      const auto refused = ask(url + more, wrong);
      EXPECT_EQ(refused.status, wrong.empty() ? 401 : 403);
      EXPECT_EQ(refused.body, nothing);
    }
  }
  EXPECT_EQ(ask(url + "/below", token).status, 404);
  EXPECT_EQ(ask(url, token, "DELETE").status, 405);
}

TEST_F(Endpoint, SaysWhatIsWrongAsSdksExpectIt) {
  const auto one = endpoint();
  auto opened = one->open();
  auto& variables = opened.value();
  failing_ = CallError{.kind = CallError::Kind::Permission, .code = "AccessDenied"};
  EXPECT_EQ(ask(variables[container_uri], variables[container_token]).status, 403);
  failing_ = CallError{.kind = CallError::Kind::NoCredentials, .message = "silent\xff"};
  std::this_thread::sleep_for(2100ms);
  const auto answer = ask(variables[container_uri], variables[container_token]);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body,
            "{\"code\":\"CredentialsUnavailable\",\"message\":\"silent\xef\xbf\xbd\"}");
}

TEST_F(Endpoint, IsFoundAgainAtItsPlaceByAnAgentThatTakesOver) {
  auto one = endpoint();
  auto opened = one->open();
  auto& variables = opened.value();
  struct stat status {};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0400u);
  EXPECT_EQ(kept(), variables[container_token]);
  one.reset();
  const auto two = endpoint();
  two->resume();
  settle();
  EXPECT_EQ(ask(variables[container_uri], variables[container_token]).status, 200);
  EXPECT_EQ(two->open().value(), variables) << "the next trainer, too";
}

TEST_F(Endpoint, WaitsForAPortThatSomebodyElseHas) {
  auto one = endpoint();
  auto opened = one->open();
  auto& variables = opened.value();
  const auto two = endpoint();
  two->resume();
  settle();
  one.reset();
  std::this_thread::sleep_for(1100ms);
  settle();
  EXPECT_EQ(ask(variables[container_uri], variables[container_token]).status, 200);
}

TEST_F(Endpoint, DoesNotTakeWhatIsNoTokenOfOurs) {
  const std::string digits(64, 'a');
  for (const std::string& text : {"22-" + digits, "70000-" + digits, "45123-" + digits + "a",
                                  "45123-" + std::string(64, 'g'), std::string(), digits}) {
    std::ofstream(file()) << text;
    const auto one = endpoint();
    one->resume();
    settle();
    EXPECT_NE(one->open().value()[container_token], text);
    std::filesystem::remove(file());
  }
}

}  // namespace
}  // namespace spotter::act
