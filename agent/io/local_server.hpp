// Finds the user whose program is at the other end of a TCP connection within this machine.
#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/io/asio.hpp"

namespace spotter::io {

// The user of the socket that is connected to `accepted`, an IPv4 one. Nothing: it is none of this
// network namespace, or closed by now (the kernel would call it root's), or the kernel does not
// say. Source: sock_diag(7).
#ifndef SPOTTER_CLIENT
inline constexpr bool kernel_knows_users = true;
#else
inline constexpr bool kernel_knows_users = false;
#endif
std::optional<uid_t> user_of_peer(const boost::asio::ip::tcp::socket& accepted);

// A small HTTP server on 127.0.0.1 for programs of this machine, on one thread: GET-like questions
// without a body, each answered by one function with one document, or with a stream, on a
// connection of its own.

struct LocalRequest {
  std::string method;
  std::string target;  // with the query
  std::string authorization;
  std::string host, origin;
  std::optional<uid_t> user;  // user_of_peer()
};

// True of root and of our own user: programs of nobody else have that one's rights.
bool is_of_us(const LocalRequest& request);

struct LocalResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  // Instead of `body`: asked again and again for what comes next, and may wait for it. Ends with
  // the connection, or with nothing.
  std::function<asio::awaitable<std::string>()> more = {};
};

// Threading: the io_context's one thread. May be destroyed while questions are under way: those
// connections end.
class LocalServer : Pinned {
 public:
  using Handler = std::function<asio::awaitable<LocalResponse>(LocalRequest)>;

  // The handler must outlive the io_context's last run, not only this. Whoever connects is counted
  // by user, and cannot keep others out: root, our own user and those of `known` have many
  // connections each; strangers a few, which they share. More of them are closed at once, and so is
  // a connection on which nothing was asked for two seconds.
  LocalServer(asio::io_context& context, Handler handler, std::vector<uid_t> known = {});
  ~LocalServer();

  // Port 0: one of the kernel's choosing. Fails with the errno of bind() or listen().
  std::error_code open(std::uint16_t port);
  // The same with a socket that listens there already.
  std::error_code adopt(int listening);
  int listening() const;       // the socket; -1: not open
  std::uint16_t port() const;  // 0: not open

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace spotter::io
