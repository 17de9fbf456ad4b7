// Which user of this machine is at the other end of a TCP connection.
#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <optional>

namespace spotter::emulator {

// Nothing: the peer is not on this machine, in another network namespace, or has closed its end.
std::optional<uid_t> user_of(const boost::asio::ip::tcp::endpoint& peer,
                             const boost::asio::ip::tcp::endpoint& local);

// Whoever started this process, also by sudo, and root.
bool is_owner(uid_t user);

}  // namespace spotter::emulator
