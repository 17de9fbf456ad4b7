#include "agent/io/local_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#ifndef SPOTTER_CLIENT
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#endif

#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstring>
#include <map>

namespace spotter::io {
namespace {

using boost::asio::ip::tcp;

#ifndef SPOTTER_CLIENT

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 about{};
};

// Exactly one socket is asked for, so that neither the question nor the answer grows with their
// number.
Question about(const tcp::endpoint& its, const tcp::endpoint& ours) {
  Question question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.about.sdiag_family = AF_INET;
  question.about.sdiag_protocol = IPPROTO_TCP;
  question.about.idiag_states = ~0U;
  inet_diag_sockid& id = question.about.id;
  id.idiag_sport = htons(its.port());
  id.idiag_dport = htons(ours.port());
  id.idiag_src[0] = htonl(its.address().to_v4().to_uint());
  id.idiag_dst[0] = htonl(ours.address().to_v4().to_uint());
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

std::optional<uid_t> read_answer(int netlink) {
  alignas(nlmsghdr) std::array<char, 4096> bytes{};
  const ssize_t size = ::recv(netlink, bytes.data(), bytes.size(), MSG_DONTWAIT);
  nlmsghdr header{};
  inet_diag_msg found{};
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof found))) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::memcpy(&found, bytes.data() + NLMSG_HDRLEN, sizeof found);
  const bool is_of_somebody = found.idiag_inode != 0;
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || !is_of_somebody) return std::nullopt;
  return found.idiag_uid;
}

}  // namespace

std::optional<uid_t> user_of_peer(const tcp::socket& accepted) {
  boost::system::error_code failed;
  const tcp::endpoint its = accepted.remote_endpoint(failed);
  const tcp::endpoint ours = failed ? tcp::endpoint() : accepted.local_endpoint(failed);
  if (failed || !its.address().is_v4()) return std::nullopt;
  const int netlink = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (netlink < 0) return std::nullopt;
  const Question question = about(its, ours);
  const bool asked = ::send(netlink, &question, sizeof question, 0) == sizeof question;
  const auto user = asked ? read_answer(netlink) : std::nullopt;
  ::close(netlink);
  return user;
}

#else

}  // namespace

std::optional<uid_t> user_of_peer(const tcp::socket& /*accepted*/) { return std::nullopt; }

#endif

namespace {

// A program of this machine that has connected asks at once; who does not listen has gone.
constexpr std::chrono::seconds patience_to_ask{2};
constexpr std::chrono::seconds patience{10};
// A question is a few hundred bytes; what a machine's own programs may cost us has an end.
constexpr std::uint32_t longest_header = 8192;
// Connections at once. Each process of a trainer may ask for credentials in the same second. Those
// that are none of our business have some, too: a scraper, a container with users of its own.
constexpr int most_of_a_known_user = 256;
constexpr int most_of_a_stranger = 8;
constexpr int most_of_strangers = 32;
constexpr uid_t nobody_known = static_cast<uid_t>(-1);  // the kernel does not say who it is

}  // namespace

bool is_of_us(const LocalRequest& request) {
  return request.user && (*request.user == 0 || *request.user == ::geteuid());
}

using asio::ip::tcp;
namespace http = boost::beast::http;

struct LocalServer::Shared {
  Shared(asio::io_context& context, Handler answer, std::vector<uid_t> users)
      : acceptor(context), handler(std::move(answer)), known(std::move(users)) {}

  bool is_known(uid_t user) const {
    return user == 0 || user == ::geteuid() || std::ranges::find(known, user) != known.end();
  }
  // The connections that one user keeps open cost no other user any.
  bool admits(uid_t user) const {
    const auto found = open.find(user);
    const int its = found == open.end() ? 0 : found->second;
    if (is_known(user)) return its < most_of_a_known_user;
    return its < most_of_a_stranger && strangers < most_of_strangers;
  }
  void count(uid_t user, int by) {
    if (!is_known(user)) strangers += by;
    if ((open[user] += by) == 0) open.erase(user);
  }

  tcp::acceptor acceptor;
  Handler handler;
  const std::vector<uid_t> known;
  std::map<uid_t, int> open;  // connections of each user
  int strangers = 0;          // those of all that are not known

  // Those beyond the most are closed at once: in the kernel's queue they would stand before others.
  static asio::awaitable<void> listen(std::shared_ptr<Shared> self) {
    boost::system::error_code failed;
    while (!failed) {
      tcp::socket socket(self->acceptor.get_executor());
      co_await self->acceptor.async_accept(socket,
                                           asio::redirect_error(asio::use_awaitable, failed));
      if (failed && self->acceptor.is_open()) {  // no file descriptor is free, say
        asio::steady_timer pause(self->acceptor.get_executor(), std::chrono::seconds(1));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, failed));
        failed.clear();
        continue;
      }
      if (failed) break;
      const uid_t user = user_of_peer(socket).value_or(nobody_known);
      if (!self->admits(user)) continue;
      self->count(user, +1);
      asio::co_spawn(self->acceptor.get_executor(), serve(self, std::move(socket), user),
                     asio::detached);
    }
  }

  static asio::awaitable<void> serve(std::shared_ptr<Shared> self, tcp::socket socket, uid_t user) {
    boost::beast::tcp_stream stream(std::move(socket));
    co_await exchange(self, stream, user);
    boost::system::error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream.close();
    self->count(user, -1);
  }

  static asio::awaitable<void> exchange(std::shared_ptr<Shared> self,
                                        boost::beast::tcp_stream& stream, uid_t user) {
    boost::system::error_code failed;
    boost::beast::flat_buffer buffer(longest_header);
    http::request_parser<http::empty_body> parser;
    parser.header_limit(longest_header);
    stream.expires_after(patience_to_ask);
    co_await http::async_read_header(stream, buffer, parser,
                                     asio::redirect_error(asio::use_awaitable, failed));
    if (failed) co_return;
    const auto& asked = parser.get();
    LocalRequest request{std::string(asked.method_string()),
                         std::string(asked.target()),
                         std::string(asked[http::field::authorization]),
                         std::string(asked[http::field::host]),
                         std::string(asked[http::field::origin]),
                         user == nobody_known ? std::nullopt : std::optional(user)};
    LocalResponse answer = co_await self->handler(std::move(request));
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
    co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, failed));
    while (!failed && answer.more) {
      stream.expires_never();
      const std::string piece = co_await answer.more();
      if (piece.empty()) break;
      stream.expires_after(patience);
      co_await asio::async_write(stream, asio::buffer(piece),
                                 asio::redirect_error(asio::use_awaitable, failed));
    }
  }
};

LocalServer::LocalServer(asio::io_context& context, Handler handler, std::vector<uid_t> known)
    : shared_(std::make_shared<Shared>(context, std::move(handler), std::move(known))) {}

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
  asio::co_spawn(acceptor.get_executor(), Shared::listen(shared_), asio::detached);
  return {};
}

std::error_code LocalServer::adopt(int listening) {
  boost::system::error_code failed;
  shared_->acceptor.assign(tcp::v4(), listening, failed);
  if (!failed)
    asio::co_spawn(shared_->acceptor.get_executor(), Shared::listen(shared_), asio::detached);
  return failed;
}

int LocalServer::listening() const {
  return shared_->acceptor.is_open() ? shared_->acceptor.native_handle() : -1;
}

}  // namespace spotter::io
