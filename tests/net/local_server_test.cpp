// The server for programs of this machine, and what another user of it can do to it.
#include "agent/io/local_server.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/io/http.hpp"
#include "tests/net/server.hpp"

namespace spotter::io {
namespace {

using asio::ip::tcp;
using namespace std::chrono_literals;
using net_test::run;

constexpr uid_t trainer = 65534, stranger = 65533, another = 65532;

int connected(std::uint16_t port) {
  const int connection = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(connection, at, sizeof address) == 0 ? connection : -1;
}

// A process of another user that holds connections on which nothing is asked, and opens each again
// when it is closed, until it is killed.
class Idler {
 public:
  Idler(uid_t user, std::uint16_t port, std::size_t connections) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(1);
      std::vector<int> held(connections);
      for (int& each : held) each = connected(port);
      [[maybe_unused]] const auto written = ::write(ends[1], "x", 1);
      for (;; ::usleep(1000)) {
        for (int& each : held) {
          char byte = 0;
          if (::recv(each, &byte, 1, MSG_DONTWAIT) != 0) continue;
          ::close(each);
          each = connected(port);
        }
      }
    }
    ::close(ends[1]);
    char byte = 0;
    began_ = ::read(ends[0], &byte, 1) == 1;
    ::close(ends[0]);
  }
  Idler(const Idler&) = delete;
  Idler& operator=(const Idler&) = delete;
  ~Idler() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  bool began() const { return began_; }

 private:
  pid_t pid_ = 0;
  bool began_ = false;
};

// Asks as another user; gets the beginning of the status line. Empty: nothing.
struct Asker {
  pid_t pid = 0;
  int answer = -1;
};

Asker ask_as(uid_t user, std::uint16_t port) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(1);
    const int connection = connected(port);
    const std::string question = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    char answer[12] = {};
    [[maybe_unused]] const auto sent = ::send(connection, question.data(), question.size(), 0);
    const ssize_t got = ::recv(connection, answer, sizeof answer, MSG_WAITALL);
    [[maybe_unused]] const auto written = ::write(ends[1], answer, got > 0 ? 12 : 0);
    ::_exit(0);
  }
  ::close(ends[1]);
  return {child, ends[0]};
}

class OnThisMachine : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as other users";
    ASSERT_FALSE(server_.open(0));
  }
  // Root's own question, given up after five seconds.
  int ask() {
    HttpRequest request{.method = "GET",
                        .url = "http://127.0.0.1:" + std::to_string(server_.port()) + "/",
                        .timeout = 5s,
                        .use_proxy = false};
    auto answer = run(context_, http_.send(std::move(request)));
    return answer ? answer->status : 0;
  }
  std::string ask_as_user(uid_t user) {
    const Asker asker = ask_as(user, server_.port());
    std::string answer(12, '\0');
    asio::posix::stream_descriptor words(context_, asker.answer);
    asio::steady_timer limit(context_, 5s);
    limit.async_wait([&](boost::system::error_code over) {
      if (!over) words.cancel();
    });
    bool done = false;
    words.async_read_some(asio::buffer(answer), [&](boost::system::error_code, std::size_t size) {
      answer.resize(size);
      limit.cancel();
      done = true;
    });
    context_.restart();
    while (!done) context_.run_one();
    ::kill(asker.pid, SIGKILL);
    ::waitpid(asker.pid, nullptr, 0);
    return answer;
  }

  bool ours_alone_ = false;
  asio::io_context context_;
  HttpClient http_{context_};
  LocalServer server_{context_,
                      [this](LocalRequest request) -> asio::awaitable<LocalResponse> {
                        const bool refused = ours_alone_ && !is_of_us(request);
                        co_return LocalResponse{refused ? 403 : 200, "{}"};
                      },
                      {trainer}};
};

TEST_F(OnThisMachine, AStrangersIdleConnectionsKeepNobodyOut) {
  const Idler idler(stranger, server_.port(), 200);
  ASSERT_TRUE(idler.began());
  EXPECT_EQ(ask(), 200);
  EXPECT_EQ(ask_as_user(trainer), "HTTP/1.1 200");
  EXPECT_EQ(ask_as_user(another), "HTTP/1.1 200") << "another stranger";
}

TEST_F(OnThisMachine, TheTrainersIdleConnectionsKeepRootAndStrangersIn) {
  const Idler idler(trainer, server_.port(), 600);
  ASSERT_TRUE(idler.began());
  EXPECT_EQ(ask(), 200);
  EXPECT_EQ(ask_as_user(another), "HTTP/1.1 200");
}

TEST_F(OnThisMachine, ManyStrangersTogetherKeepTheTrainerIn) {
  std::vector<std::unique_ptr<Idler>> idlers;
  for (uid_t user = 60'000; user < 60'010; ++user)
    idlers.push_back(std::make_unique<Idler>(user, server_.port(), 20));
  EXPECT_EQ(ask_as_user(trainer), "HTTP/1.1 200");
  EXPECT_EQ(ask(), 200);
}

TEST_F(OnThisMachine, AConnectionIsItsUsersUntilItIsClosed) {
  tcp::acceptor acceptor(context_, {asio::ip::address_v4::loopback(), 0});
  const std::uint16_t port = acceptor.local_endpoint().port();
  {
    const Idler idler(stranger, port, 1);
    EXPECT_EQ(user_of_peer(acceptor.accept()), stranger);
  }
  const int own = connected(port);
  const tcp::socket accepted = acceptor.accept();
  EXPECT_EQ(user_of_peer(accepted), 0U);
  ::close(own);
  EXPECT_EQ(user_of_peer(accepted), std::nullopt) << "not root's, as the kernel has it";
}

TEST_F(OnThisMachine, ARequestSaysWhoseItIs) {
  ours_alone_ = true;
  EXPECT_EQ(ask(), 200);
  EXPECT_EQ(ask_as_user(trainer), "HTTP/1.1 403");
  EXPECT_EQ(ask_as_user(stranger), "HTTP/1.1 403");
}

TEST_F(OnThisMachine, WhoAsksNothingIsClosed) {
  const int idle = connected(server_.port());
  asio::posix::stream_descriptor connection(context_, idle);
  char byte = 0;
  bool closed = false;
  connection.async_read_some(asio::buffer(&byte, 1), [&](boost::system::error_code, std::size_t) {
    closed = true;
    context_.stop();
  });
  context_.restart();
  context_.run_for(6s);  // half of what it was given once
  EXPECT_TRUE(closed);
}

}  // namespace
}  // namespace spotter::io
