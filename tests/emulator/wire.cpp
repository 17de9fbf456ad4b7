#include "tests/emulator/wire.hpp"

#include "tests/emulator/precompiled.hpp"

namespace spotter::emulator {
namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto as_tuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t chunk = 64 * 1024;
constexpr std::chrono::seconds goodbye_limit{1};

template <class Stream>
asio::awaitable<std::string> read_from(Stream& stream) {
  std::string bytes(chunk, '\0');
  const auto buffer = asio::buffer(bytes);
  auto [failed, size] = co_await stream.async_read_some(buffer, as_tuple);
  bytes.resize(failed ? 0 : size);
  co_return bytes;
}

template <class Stream>
asio::awaitable<bool> write_to(Stream& stream, const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto buffer = asio::buffer(bytes) + sent;
    auto [failed, size] = co_await stream.async_write_some(buffer, as_tuple);
    if (failed) co_return false;
    sent += size;
  }
  co_return true;
}

class Plain : public Wire {
 public:
  explicit Plain(tcp::socket socket) : Wire(socket.get_executor()), socket_(std::move(socket)) {}
  asio::awaitable<bool> open() override { co_return true; }
  asio::awaitable<std::string> read() override { return read_from(socket_); }
  asio::awaitable<bool> write(const std::string& bytes) override {
    return write_to(socket_, bytes);
  }
  asio::awaitable<void> finish() override {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    co_return;
  }
  tcp::socket& socket() override { return socket_; }

 private:
  tcp::socket socket_;
};

class Secure : public Wire {
 public:
  Secure(tcp::socket socket, TlsContext tls)
      : Wire(socket.get_executor()), tls_(std::move(tls)), stream_(std::move(socket), *tls_) {}
  asio::awaitable<bool> open() override {
    auto [failed] = co_await stream_.async_handshake(asio::ssl::stream_base::server, as_tuple);
    co_return !failed;
  }
  asio::awaitable<std::string> read() override { return read_from(stream_); }
  asio::awaitable<bool> write(const std::string& bytes) override {
    return write_to(stream_, bytes);
  }
  asio::awaitable<void> finish() override {
    expires_after(goodbye_limit);
    co_await stream_.async_shutdown(as_tuple);
  }
  tcp::socket& socket() override { return stream_.next_layer(); }

 private:
  TlsContext tls_;
  asio::ssl::stream<tcp::socket> stream_;
};

}  // namespace

void Wire::expires_after(std::chrono::milliseconds limit) {
  limit_.expires_after(limit);
  limit_.async_wait([self = weak_from_this()](const error_code& cancelled) {
    if (const auto wire = self.lock(); wire && !cancelled) wire->close();
  });
}

void Wire::expires_never() { limit_.cancel(); }

void Wire::close() {
  error_code ignored;
  limit_.cancel();
  socket().close(ignored);
}

Result<TlsContext> server_tls(const std::string& certificate, const std::string& key) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code failed;
  context->use_certificate_chain_file(certificate, failed);
  if (failed) return failure("--tls-certificate " + certificate + ": " + failed.message());
  context->use_private_key_file(key, asio::ssl::context::pem, failed);
  if (failed) return failure("--tls-key " + key + ": " + failed.message());
  return context;
}

std::shared_ptr<Wire> plain_wire(tcp::socket socket) {
  return std::make_shared<Plain>(std::move(socket));
}

std::shared_ptr<Wire> secure_wire(tcp::socket socket, const TlsContext& tls) {
  return std::make_shared<Secure>(std::move(socket), tls);
}

}  // namespace spotter::emulator
