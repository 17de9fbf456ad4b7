// The trainer's SDKs ask for credentials: what they get, and when the keys are renewed.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
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

// Process 1 of a machine is played: it keeps what it is sent, and hands it to the next agent.
TEST_F(Endpoint, LeavesItsPortToNobodyWhileNoAgentRuns) {
  const std::string notify = place_ + "/notify";
  const int manager = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  notify.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(manager, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::setenv("NOTIFY_SOCKET", notify.c_str(), 1);
  auto one = endpoint();
  auto variables = one->open().value();
  ::unsetenv("NOTIFY_SOCKET");
  int store = -1;
  std::string words;
  while (store < 0) {
    char text[256] = {};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec part{text, sizeof text - 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ASSERT_GT(::recvmsg(manager, &message, MSG_DONTWAIT), 0) << words;
    words += text;
    if (const cmsghdr* sent = CMSG_FIRSTHDR(&message))
      std::memcpy(&store, CMSG_DATA(sent), sizeof store);
  }
  EXPECT_NE(words.find("FDSTORE=1\nFDNAME=trainer-keys"), words.npos) << words;
  one.reset();
  const auto url = variables[container_uri];
  const int port = std::stoi(url.substr(url.rfind(':') + 1));
  io::LocalServer stranger(context_, [](io::LocalRequest) -> asio::awaitable<io::LocalResponse> {
    co_return io::LocalResponse{};
  });
  EXPECT_EQ(stranger.open(static_cast<std::uint16_t>(port)), std::errc::address_in_use);
  // In a process of its own, which finds it where an agent does.
  const pid_t agent = ::fork();
  if (agent == 0) {
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", "1", 1);
    ::setenv("LISTEN_FDNAMES", "trainer-keys", 1);
    if (store != 3) ::dup2(store, 3);
    asio::io_context context{1};
    const auto end =
        std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) + 1h;
    FreshKeys keys(context, [end]() -> asio::awaitable<Result<wire::Credentials, CallError>> {
      wire::Credentials fresh{"K1", "S", "T", end};
      co_return fresh;
    });
    KeyEndpoint two(context, {place_, "nobody"}, keys, [] { return "arn:aws:iam::1:role/r"; });
    two.resume();
    context.run_for(std::chrono::seconds(60));
    ::_exit(0);
  }
  ::close(store);
  EXPECT_EQ(ask(url, variables[container_token]).status, 200);
  ::kill(agent, SIGKILL);
  ::waitpid(agent, nullptr, 0);
  ::close(manager);
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
