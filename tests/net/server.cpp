#include "tests/net/server.hpp"

#include <boost/beast/core/flat_buffer.hpp>

namespace spotter::net_test {

using asio::ip::tcp;

Server::Shared::Shared(asio::io_context& context, Handler answer, unsigned short wanted)
    : acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), wanted)),
      handler(std::move(answer)),
      port(acceptor.local_endpoint().port()) {}

Server::Server(asio::io_context& context, Handler handler, unsigned short port)
    : shared_(std::make_shared<Shared>(context, std::move(handler), port)) {
  asio::co_spawn(context, listen(shared_), asio::detached);
}

Server::~Server() {
  boost::system::error_code ignored;
  shared_->acceptor.close(ignored);
  for (const auto& weak : shared_->sockets) {
    if (const auto socket = weak.lock()) socket->close(ignored);
  }
}

asio::awaitable<void> Server::listen(std::shared_ptr<Shared> shared) {
  for (;;) {
    auto socket = std::make_shared<tcp::socket>(shared->acceptor.get_executor());
    boost::system::error_code failed;
    auto accepted =
        shared->acceptor.async_accept(*socket, asio::redirect_error(asio::use_awaitable, failed));
    co_await std::move(accepted);
    if (failed) co_return;
    ++shared->accepted;
    shared->sockets.push_back(socket);
    asio::co_spawn(shared->acceptor.get_executor(), serve(shared, socket), asio::detached);
  }
}

asio::awaitable<void> Server::serve(std::shared_ptr<Shared> shared,
                                    std::shared_ptr<tcp::socket> socket) {
  boost::beast::flat_buffer buffer;
  boost::system::error_code failed;
  for (;;) {
    Request request;
    auto read = http::async_read(*socket, buffer, request,
                                 asio::redirect_error(asio::use_awaitable, failed));
    co_await std::move(read);
    if (failed) co_return;
    shared->requests.push_back(request);
    const Reply reply = shared->handler(request);
    if (reply.drop) co_return;
    if (reply.hang) {
      auto gone = socket->async_wait(tcp::socket::wait_error,
                                     asio::redirect_error(asio::use_awaitable, failed));
      co_await std::move(gone);
      co_return;
    }
    http::response<http::string_body> response(static_cast<http::status>(reply.status), 11);
    for (const auto& [name, value] : reply.headers) response.set(name, value);
    response.body() = reply.body;
    response.prepare_payload();
    auto written =
        http::async_write(*socket, response, asio::redirect_error(asio::use_awaitable, failed));
    co_await std::move(written);
    if (failed) co_return;
  }
}

RoleServer::RoleServer(asio::io_context& context, const wire::WallTime& now)
    : now_(now), server_(context, [this](const auto& request) { return answer(request); }) {}

Reply RoleServer::answer(const Request& request) {
  if (request.method_string() == "PUT") return {.body = "a-token"};
  if (request["X-aws-ec2-metadata-token"] != "a-token") return {.status = 401};
  if (request.target().ends_with('/')) return {.status = name.empty() ? 404 : 200, .body = name};
  ++asked;
  return {.status = status,
          .body = R"({"Code":"Success","AccessKeyId":"R)" + std::to_string(asked) +
                  R"(","SecretAccessKey":"secret","Token":"token","Expiration":")" +
                  wire::to_rfc3339(now_ + std::chrono::hours(1)) + R"("})",
          .headers = headers};
}

}  // namespace spotter::net_test
