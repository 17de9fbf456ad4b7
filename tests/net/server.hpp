// A small HTTP server on 127.0.0.1 in the test's own io_context: real sockets, scripted answers.
#pragma once

#include "agent/base/clock_text.hpp"
#include "agent/io/asio.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace spotter::net_test {

namespace http = boost::beast::http;
using Request = http::request<http::string_body>;

struct Reply {
  int status = 200;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  bool hang = false;  // never answers
  bool drop = false;  // closes the connection instead of answering
};

class Server {
 public:
  using Handler = std::function<Reply(const Request&)>;

  // Port 0: any free one.
  Server(asio::io_context& context, Handler handler, unsigned short port = 0);
  ~Server();  // closes the listener and every connection
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  unsigned short port() const { return shared_->port; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }
  int connections() const { return shared_->accepted; }
  const std::vector<Request>& requests() const { return shared_->requests; }

 private:
  struct Shared;
  struct Shared {
    Shared(asio::io_context& context, Handler answer, unsigned short wanted);
    asio::ip::tcp::acceptor acceptor;
    Handler handler;
    unsigned short port = 0;
    int accepted = 0;
    std::vector<Request> requests;
    std::vector<std::weak_ptr<asio::ip::tcp::socket>> sockets;
  };
  static asio::awaitable<void> listen(std::shared_ptr<Shared> shared);
  static asio::awaitable<void> serve(std::shared_ptr<Shared> shared,
                                     std::shared_ptr<asio::ip::tcp::socket> socket);

  std::shared_ptr<Shared> shared_;
};

// A metadata service that gives a role's keys, each valid for an hour: R1, R2 ...
class RoleServer {
 public:
  RoleServer(asio::io_context& context, const wire::WallTime& now);
  std::string url() const { return server_.url(); }

  int asked = 0;                     // for keys
  int status = 200;                  // of the answer to that
  std::string name = "role";         // empty: there is none
  decltype(Reply::headers) headers;  // of that answer

 private:
  Reply answer(const Request& request);

  const wire::WallTime& now_;
  Server server_;
};

// Runs the io_context until the coroutine has returned.
template <class T>
T run(asio::io_context& context, asio::awaitable<T> task) {
  std::optional<T> result;
  std::exception_ptr thrown;
  asio::co_spawn(context, std::move(task), [&](std::exception_ptr failed, T value) {
    thrown = failed;
    result.emplace(std::move(value));
  });
  context.restart();
  while (!result) context.run_one();
  if (thrown) std::rethrow_exception(thrown);
  return std::move(*result);
}

}  // namespace spotter::net_test
