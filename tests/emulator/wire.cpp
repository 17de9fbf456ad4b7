#include "tests/emulator/wire.hpp"

#include <sys/sendfile.h>

#include <algorithm>
#include <array>

#include "tests/emulator/precompiled.hpp"

namespace spotter::emulator {
namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t chunk = 64 * 1024;
constexpr std::chrono::seconds goodbye_limit{1};

using Room = std::array<char, chunk>;

template <class Stream>
asio::awaitable<std::string> read_from(Stream& stream, Room& room) {
  const auto buffer = asio::buffer(room);
  auto [failed, size] = co_await stream.async_read_some(buffer, as_tuple);
  co_return std::string(room.data(), failed ? 0 : size);
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

asio::awaitable<bool> send_bytes(tcp::socket& socket, const std::string& bytes, int flags) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto buffer = asio::buffer(bytes) + sent;
    auto [failed, size] = co_await socket.async_send(buffer, flags, as_tuple);
    if (failed) co_return false;
    sent += size;
  }
  co_return true;
}

// From the page cache to the socket, without a copy in this process.
asio::awaitable<bool> send_from_cache(tcp::socket& socket, int descriptor, std::uint64_t offset,
                                      std::uint64_t size) {
  error_code failed;
  auto position = static_cast<off_t>(offset);
  const auto end = static_cast<off_t>(offset + size);
  while (!failed && position < end) {
    const ssize_t sent = ::sendfile(socket.native_handle(), descriptor, &position,
                                    static_cast<std::size_t>(end - position));
    if (sent > 0 || (sent < 0 && errno == EINTR)) continue;
    if (sent == 0 || errno != EAGAIN) co_return false;
    auto [broken] = co_await socket.async_wait(tcp::socket::wait_write, as_tuple);
    failed = broken;
  }
  co_return !failed;
}

// A connection that is silent has no room of its own for what may come.
asio::awaitable<std::string> read_at_once(tcp::socket& socket) {
  for (;;) {
    static thread_local const auto room = std::make_unique<Room>();
    error_code failed;
    const std::size_t size = socket.read_some(asio::buffer(*room), failed);
    if (failed != asio::error::would_block) co_return std::string(room->data(), failed ? 0 : size);
    auto [broken] = co_await socket.async_wait(tcp::socket::wait_read, as_tuple);
    if (broken) co_return std::string();
  }
}

class Plain : public Wire {
 public:
  explicit Plain(tcp::socket socket) : Wire(socket.get_executor()), socket_(std::move(socket)) {}
  asio::awaitable<bool> open() override {
    error_code failed;
    socket_.non_blocking(true, failed);
    co_return !failed;
  }
  asio::awaitable<std::string> read() override { return read_at_once(socket_); }
  asio::awaitable<bool> write(const std::string& bytes) override {
    return write_to(socket_, bytes);
  }
  asio::awaitable<bool> write_more(const std::string& bytes) override {
    return send_bytes(socket_, bytes, MSG_MORE);
  }
  asio::awaitable<bool> send_file(int descriptor, std::uint64_t offset,
                                  std::uint64_t size) override {
    return send_from_cache(socket_, descriptor, offset, size);
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
  asio::awaitable<std::string> read() override { return read_from(stream_, *room_); }
  asio::awaitable<bool> write(const std::string& bytes) override {
    return write_to(stream_, bytes);
  }
  asio::awaitable<bool> write_more(const std::string& bytes) override {
    return write_to(stream_, bytes);
  }
  asio::awaitable<bool> send_file(int descriptor, std::uint64_t offset,
                                  std::uint64_t size) override {
    std::string piece(std::min<std::uint64_t>(size, 4 * chunk), '\0');
    for (std::uint64_t sent = 0; sent < size;) {
      piece.resize(std::min<std::uint64_t>(size - sent, 4 * chunk));
      const ssize_t got =
          ::pread(descriptor, piece.data(), piece.size(), static_cast<off_t>(offset + sent));
      if (got <= 0) co_return false;
      piece.resize(static_cast<std::size_t>(got));
      if (!co_await write_to(stream_, piece)) co_return false;
      sent += piece.size();
    }
    co_return true;
  }
  asio::awaitable<void> finish() override {
    expires_after(goodbye_limit);
    co_await stream_.async_shutdown(as_tuple);
  }
  tcp::socket& socket() override { return stream_.next_layer(); }

 private:
  TlsContext tls_;
  asio::ssl::stream<tcp::socket> stream_;
  std::unique_ptr<Room> room_ = std::make_unique<Room>();
};

}  // namespace

void Wire::expires_after(std::chrono::milliseconds limit) {
  deadline_ = std::chrono::steady_clock::now() + limit;
  if (!watched_ || limit_.expiry() > deadline_) watch();
}

// An exchange moves the deadline and leaves the timer, which looks at it when it rings.
void Wire::watch() {
  watched_ = true;
  limit_.expires_at(deadline_);
  limit_.async_wait([self = weak_from_this()](const error_code& cancelled) {
    const auto wire = self.lock();
    if (!wire || cancelled) return;
    wire->watched_ = false;
    if (wire->deadline_ == never) return;
    if (std::chrono::steady_clock::now() < wire->deadline_)
      wire->watch();
    else
      wire->close();
  });
}

const std::string& Wire::local_address() {
  error_code ignored;
  if (local_.empty()) local_ = socket().local_endpoint(ignored).address().to_string();
  return local_;
}

void Wire::reset() {
  error_code ignored;
  socket().set_option(asio::socket_base::linger(true, 0), ignored);
  close();
}

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
