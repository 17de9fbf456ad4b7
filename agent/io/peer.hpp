// Whose program is at the other end of a TCP connection within this machine.
#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <optional>

namespace spotter::io {

// The user of the socket that is connected to `accepted`, an IPv4 one. Nothing: it is none of this
// network namespace, or closed by now (the kernel would call it root's), or the kernel does not
// say. Source: sock_diag(7).
std::optional<uid_t> user_of_peer(const boost::asio::ip::tcp::socket& accepted);

}  // namespace spotter::io
