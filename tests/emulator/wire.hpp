// The bytes to and from one client, over TLS or not: one interface, so that HTTP is compiled once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
// clang-format off: boost/asio/awaitable.hpp needs <utility> first
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
// clang-format on
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "agent/base/result.hpp"

namespace boost::asio::ssl {
class context;
}

namespace spotter::emulator {

// Returns a failure as the first value instead of throwing it.
inline constexpr auto as_tuple = boost::asio::as_tuple(boost::asio::use_awaitable);

using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// Both files PEM. Fails with OpenSSL's reason when one of them is not readable or they do not
// belong together.
Result<TlsContext> server_tls(const std::string& certificate, const std::string& key);

// Must be owned by a shared_ptr: its timer looks whether it still lives.
class Wire : public std::enable_shared_from_this<Wire> {
 public:
  virtual ~Wire() = default;
  virtual boost::asio::awaitable<bool> open() = 0;         // the handshake, where there is one
  virtual boost::asio::awaitable<std::string> read() = 0;  // empty: the end, or an error
  virtual boost::asio::awaitable<bool> write(const std::string& bytes) = 0;  // all, or false
  // The same, and more follows at once: the kernel need not send it yet.
  virtual boost::asio::awaitable<bool> write_more(const std::string& bytes) = 0;
  // False when the file ends before `size` bytes, too.
  virtual boost::asio::awaitable<bool> send_file(int descriptor, std::uint64_t offset,
                                                 std::uint64_t size) = 0;
  virtual boost::asio::awaitable<void> finish() = 0;  // says goodbye
  virtual boost::asio::ip::tcp::socket& socket() = 0;
  boost::asio::any_io_executor executor() { return limit_.get_executor(); }

  // Closes the connection when this much time goes by before the next call of either.
  void expires_after(std::chrono::milliseconds limit);
  void expires_never() { deadline_ = never; }
  void close();
  void reset();  // as a peer that crashed
  const std::string& local_address();

  // Whether the emulator's owner made it, once that was looked up: the kernel notes at a socket's
  // birth whose it is, and a process that gets one from another changes nothing about it.
  std::optional<bool> is_of_owner;

 protected:
  explicit Wire(const boost::asio::any_io_executor& executor) : limit_(executor) {}

 private:
  using Instant = std::chrono::steady_clock::time_point;
  static constexpr Instant never = Instant::max();
  void watch();

  boost::asio::steady_timer limit_;
  Instant deadline_ = never;
  bool watched_ = false;  // the timer is set
  std::string local_;
};

std::shared_ptr<Wire> plain_wire(boost::asio::ip::tcp::socket socket);
std::shared_ptr<Wire> secure_wire(boost::asio::ip::tcp::socket socket, const TlsContext& tls);

}  // namespace spotter::emulator
