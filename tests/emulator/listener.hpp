// An HTTP/1.1 server on one listening socket. Whole requests are answered on the io_context's one
// thread; where there are workers, connections are read and written by them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "agent/base/result.hpp"
#include "tests/emulator/http.hpp"
#include "tests/emulator/wire.hpp"
#include "tests/emulator/workers.hpp"

namespace spotter::emulator {

struct Shared;

struct Endpoint {
  std::string address;     // numeric
  std::uint16_t port = 0;  // 0: the kernel chooses

  std::string str() const { return address + ":" + std::to_string(port); }
};
// "127.0.0.1:4566"; IPv4 only.
Result<Endpoint> parse_endpoint(const std::string& text);

// Answers requests. `streams` is asked first and called in the workers' threads.
struct HttpService {
  HttpHandler whole;
  HttpStreams streams = {};
  // What only the user who has started the emulator, and root, may ask, since no signature says who
  // asks. Empty: nothing.
  std::function<bool(const HttpRequest&)> owners_only = {};
  Workers* workers = nullptr;  // outlives every listener, and is stopped before they go
};

// Destroying it closes the socket and every connection, without an answer to what is under way.
class Listener {
 public:
  static Result<std::unique_ptr<Listener>> open(boost::asio::io_context& context,
                                                const Endpoint& endpoint, HttpService service,
                                                TlsContext tls = nullptr);
  // Takes over a socket that is listening already.
  static Result<std::unique_ptr<Listener>> adopt(boost::asio::io_context& context, int descriptor,
                                                 HttpService service);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  bool busy() const;  // a request has come that is not answered yet

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  using Acceptor = boost::asio::ip::tcp::acceptor;
  Listener(std::shared_ptr<Shared> shared, std::shared_ptr<Acceptor> acceptor);

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Acceptor> acceptor_;
  Endpoint endpoint_;
};

}  // namespace spotter::emulator
