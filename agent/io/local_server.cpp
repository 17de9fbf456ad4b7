#include "agent/io/local_server.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>

namespace spotter::io {

using asio::ip::tcp;
namespace http = boost::beast::http;

namespace {

// Who is slower than that to ask or to listen has gone.
constexpr std::chrono::seconds patience{10};
// A question is a few hundred bytes; what a machine's own programs may cost us has an end.
constexpr std::uint32_t longest_header = 8192;
constexpr int most_at_once = 64;

}  // namespace

struct LocalServer::Shared {
  Shared(asio::io_context& context, Handler answer)
      : acceptor(context), handler(std::move(answer)) {}

  tcp::acceptor acceptor;
  Handler handler;
  int open = 0;
  bool accepting = false;

  static asio::awaitable<void> listen(std::shared_ptr<Shared> self);
  static asio::awaitable<void> serve(std::shared_ptr<Shared> self, tcp::socket socket);
  static asio::awaitable<void> exchange(std::shared_ptr<Shared> self,
                                        boost::beast::tcp_stream& stream);
  static void go_on(const std::shared_ptr<Shared>& self);
};

LocalServer::LocalServer(asio::io_context& context, Handler handler)
    : shared_(std::make_shared<Shared>(context, std::move(handler))) {}

LocalServer::~LocalServer() {
  boost::system::error_code ignored;
  shared_->acceptor.close(ignored);
}

std::uint16_t LocalServer::port() const {
  boost::system::error_code failed;
  const auto endpoint = shared_->acceptor.local_endpoint(failed);
  return failed ? 0 : endpoint.port();
}

std::error_code LocalServer::open(std::uint16_t port) {
  tcp::acceptor& acceptor = shared_->acceptor;
  boost::system::error_code failed;
  acceptor.open(tcp::v4(), failed);
  // Connections of an agent before us may linger for a minute.
  if (!failed) acceptor.set_option(asio::socket_base::reuse_address(true), failed);
  if (!failed) acceptor.bind({asio::ip::address_v4::loopback(), port}, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (failed) {
    boost::system::error_code ignored;
    acceptor.close(ignored);
    return failed;
  }
  Shared::go_on(shared_);
  return {};
}

void LocalServer::Shared::go_on(const std::shared_ptr<Shared>& self) {
  if (self->accepting || self->open >= most_at_once) return;
  self->accepting = true;
  asio::co_spawn(self->acceptor.get_executor(), listen(self), asio::detached);
}

// Those beyond the most wait in the kernel's queue.
asio::awaitable<void> LocalServer::Shared::listen(std::shared_ptr<Shared> self) {
  boost::system::error_code failed;
  while (!failed && self->open < most_at_once) {
    tcp::socket socket(self->acceptor.get_executor());
    auto accepting =
        self->acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, failed));
    co_await std::move(accepting);
    if (failed && self->acceptor.is_open()) {  // no file descriptor is free, say
      asio::steady_timer pause(self->acceptor.get_executor(), std::chrono::seconds(1));
      auto waiting = pause.async_wait(asio::redirect_error(asio::use_awaitable, failed));
      co_await std::move(waiting);
      failed.clear();
      continue;
    }
    if (failed) break;
    ++self->open;
    asio::co_spawn(self->acceptor.get_executor(), serve(self, std::move(socket)), asio::detached);
  }
  self->accepting = false;
}

asio::awaitable<void> LocalServer::Shared::serve(std::shared_ptr<Shared> self, tcp::socket socket) {
  boost::beast::tcp_stream stream(std::move(socket));
  auto exchanging = exchange(self, stream);
  co_await std::move(exchanging);
  boost::system::error_code ignored;
  stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream.close();
  --self->open;
  if (self->acceptor.is_open()) go_on(self);
}

asio::awaitable<void> LocalServer::Shared::exchange(std::shared_ptr<Shared> self,
                                                    boost::beast::tcp_stream& stream) {
  boost::system::error_code failed;
  boost::beast::flat_buffer buffer(longest_header);
  http::request_parser<http::empty_body> parser;
  parser.header_limit(longest_header);
  stream.expires_after(patience);
  auto reading = http::async_read_header(stream, buffer, parser,
                                         asio::redirect_error(asio::use_awaitable, failed));
  co_await std::move(reading);
  if (failed) co_return;
  const auto& asked = parser.get();
  LocalRequest request{std::string(asked.method_string()), std::string(asked.target()),
                       std::string(asked[http::field::authorization]),
                       std::string(asked[http::field::host]),
                       std::string(asked[http::field::origin])};
  auto answering = self->handler(std::move(request));
  LocalResponse answer = co_await std::move(answering);
  http::response<http::string_body> response(static_cast<http::status>(answer.status),
                                             asked.version());
  response.set(http::field::content_type, answer.content_type);
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  response.set("X-Frame-Options", "DENY");
  response.keep_alive(false);
  response.body() = std::move(answer.body);
  if (!answer.more) response.prepare_payload();
  stream.expires_after(patience);
  auto writing =
      http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, failed));
  co_await std::move(writing);
  while (!failed && answer.more) {
    stream.expires_never();
    auto waiting = answer.more();
    const std::string piece = co_await std::move(waiting);
    if (piece.empty()) break;
    stream.expires_after(patience);
    auto sending = asio::async_write(stream, asio::buffer(piece),
                                     asio::redirect_error(asio::use_awaitable, failed));
    co_await std::move(sending);
  }
}

}  // namespace spotter::io
