#include "agent/io/peer.hpp"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace spotter::io {
namespace {

using boost::asio::ip::tcp;

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

}  // namespace spotter::io
