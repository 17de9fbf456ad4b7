#include "agent/io/http.hpp"

#include <gtest/gtest.h>

#include "tests/net/server.hpp"

namespace spotter::io {
namespace {

using namespace std::chrono_literals;
using net_test::Reply;
using net_test::run;
using net_test::Server;

class Http : public testing::Test {
 protected:
  Result<io::HttpResponse, CallError> send(HttpRequest request) {
    return run(context_, client_.send(std::move(request)));
  }

  asio::io_context context_;
  HttpClient client_{context_};
};

TEST_F(Http, BringsStatusHeadersAndBody) {
  Server server(context_, [](const auto& request) {
    return Reply{.status = 418, .body = "got " + request.body(), .headers = {{"X-Some", "Thing"}}};
  });
  HttpRequest request{.method = "POST", .url = server.url() + "/a?b=c", .body = "tea"};
  request.headers.emplace_back("X-Mine", "yes");
  const auto response = send(request);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 418);
  EXPECT_EQ(response->body, "got tea");
  EXPECT_EQ(response->headers.at("x-some"), "Thing");
  EXPECT_GT(response->received_at, 0ms);
  const auto& seen = server.requests().at(0);
  EXPECT_EQ(seen.method_string(), "POST");
  EXPECT_EQ(seen.target(), "/a?b=c");
  EXPECT_EQ(seen["X-Mine"], "yes");
  EXPECT_EQ(seen.count("Content-Type"), 0u);
  EXPECT_EQ(seen.count("Expect"), 0u);
}

TEST_F(Http, SendsAPutWithoutABody) {
  Server server(context_, [](const auto&) { return Reply{}; });
  ASSERT_TRUE(send({.method = "PUT", .url = server.url()}));
  EXPECT_EQ(server.requests().at(0).method_string(), "PUT");
  EXPECT_EQ(server.requests().at(0)["Content-Length"], "0");
}

TEST_F(Http, ReusesItsConnection) {
  Server server(context_, [](const auto&) { return Reply{}; });
  for (int number = 0; number < 5; ++number) ASSERT_TRUE(send({.url = server.url()}));
  EXPECT_EQ(server.connections(), 1);
  ASSERT_TRUE(send({.url = server.url(), .fresh_connection = true}));
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(Http, ConnectsAgainAfterTheServerRestarted) {
  auto server = std::make_unique<Server>(context_, [](const auto&) { return Reply{}; });
  const auto port = server->port();
  ASSERT_TRUE(send({.url = server->url()}));
  server.reset();
  Server second(
      context_, [](const auto&) { return Reply{.body = "again"}; }, port);
  const auto response = send({.url = second.url()});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, "again");
}

TEST_F(Http, TellsWhatWasCertainlyNotSentFromWhatMayHaveBeen) {
  auto server = std::make_unique<Server>(context_, [](const auto&) { return Reply{.drop = true}; });
  const std::string url = server->url();
  EXPECT_EQ(send({.url = url}).error().kind, CallError::Kind::Transient);
  server.reset();
  EXPECT_EQ(send({.url = url}).error().kind, CallError::Kind::NotSent);
  EXPECT_EQ(send({.url = "gopher://127.0.0.1"}).error().kind, CallError::Kind::NotSent);
  EXPECT_EQ(send({.url = "what"}).error().kind, CallError::Kind::NotSent);
}

TEST_F(Http, EndsWithATimeout) {
  Server server(context_, [](const auto&) { return Reply{.hang = true}; });
  const auto error = send({.url = server.url(), .timeout = 50ms}).error();
  EXPECT_EQ(error.kind, CallError::Kind::Transient);
  EXPECT_NE(error.message.find("timed out"), std::string::npos) << error.message;
}

TEST_F(Http, LimitsTheAnswer) {
  Server server(context_, [](const auto&) { return Reply{.body = std::string(100'000, 'x')}; });
  EXPECT_EQ(send({.url = server.url(), .response_limit = 99'999}).error().kind,
            CallError::Kind::Unreadable);
  EXPECT_EQ(send({.url = server.url(), .response_limit = 100'000})->body.size(), 100'000u);
}

TEST_F(Http, FollowsNoRedirect) {
  Server server(context_, [](const auto&) {
    return Reply{.status = 302, .headers = {{"Location", "http://127.0.0.1:1/"}}};
  });
  EXPECT_EQ(send({.url = server.url()})->status, 302);
}

TEST_F(Http, RunsManyAtOnce) {
  Server server(context_, [](const auto& request) { return Reply{.body = request.body()}; });
  int finished = 0;
  for (int number = 0; number < 20; ++number) {
    HttpRequest request{.method = "POST", .url = server.url(), .body = std::to_string(number)};
    asio::co_spawn(
        context_, client_.send(std::move(request)),
        [&finished, number](std::exception_ptr, Result<io::HttpResponse, CallError> result) {
          EXPECT_EQ(result.value().body, std::to_string(number));
          ++finished;
        });
  }
  while (finished < 20) context_.run_one();
  EXPECT_EQ(server.requests().size(), 20u);
}

TEST_F(Http, IsCancelled) {
  Server server(context_, [](const auto&) { return Reply{.hang = true}; });
  asio::cancellation_signal signal;
  std::optional<Result<io::HttpResponse, CallError>> result;
  HttpRequest request{.url = server.url()};
  asio::co_spawn(
      context_, client_.send(std::move(request)),
      asio::bind_cancellation_slot(
          signal.slot(), [&](std::exception_ptr, Result<io::HttpResponse, CallError> outcome) {
            result = outcome;
          }));
  while (server.requests().empty()) context_.run_one();
  signal.emit(asio::cancellation_type::terminal);
  while (!result) context_.run_one();
  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().kind, CallError::Kind::Cancelled);
}

TEST(HttpLifetime, ACallSurvivesItsClientAndItsContext) {
  bool finished = false;
  {
    asio::io_context context;
    Server server(context,
                  [](const auto& request) { return Reply{.hang = request.target() == "/hang"}; });
    auto client = std::make_unique<HttpClient>(context);
    asio::co_spawn(context, client->send({.url = server.url() + "/hang"}), asio::detached);
    HttpRequest request{.url = server.url()};
    asio::co_spawn(context, client->send(std::move(request)),
                   [&](std::exception_ptr, Result<io::HttpResponse, CallError> result) {
                     finished = result.has_value();
                   });
    context.poll();  // both are under way
    client.reset();
    while (!finished) context.run_one();
  }  // the hanging one's frame is destroyed with the context
  EXPECT_TRUE(finished);
}

}  // namespace
}  // namespace spotter::io
