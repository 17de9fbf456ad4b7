// An HTTP/1.1 server on one listening socket. Everything happens on the io_context's one thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "agent/wire/result.hpp"
#include "tests/emulator/http.hpp"

namespace boost::asio::ssl {
class context;
}

namespace spotter::emulator {

using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// Both files PEM. Fails with OpenSSL's reason when one of them is not readable or they do not
// belong together.
Result<TlsContext> server_tls(const std::string& certificate, const std::string& key);

struct Endpoint {
  std::string address;     // numeric
  std::uint16_t port = 0;  // 0: the kernel chooses

  std::string str() const { return address + ":" + std::to_string(port); }
};
// "127.0.0.1:4566"; IPv4 only.
Result<Endpoint> parse_endpoint(const std::string& text);

// Limits: request headers 32 KiB, bodies 1 MiB (EC2's own user data is 16 KiB), 60 s of silence.
// Destroying it closes the socket and every connection, without an answer to what is under way.
class Listener {
 public:
  static Result<std::unique_ptr<Listener>> open(boost::asio::io_context& context,
                                                const Endpoint& endpoint, HttpHandler handler,
                                                TlsContext tls = nullptr);
  // Takes over a socket that is listening already.
  static Result<std::unique_ptr<Listener>> adopt(boost::asio::io_context& context, int descriptor,
                                                 HttpHandler handler);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  struct Shared;
  Listener(std::shared_ptr<Shared> shared, Endpoint endpoint);

  std::shared_ptr<Shared> shared_;
  Endpoint endpoint_;
};

}  // namespace spotter::emulator
