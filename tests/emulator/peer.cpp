#include "tests/emulator/peer.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace spotter::emulator {
namespace {

using boost::asio::ip::tcp;

// As the kernel prints it: the address as this machine's processor reads its bytes.
// https://docs.kernel.org/networking/proc_net_tcp.html
std::string printed(const tcp::endpoint& endpoint) {
  const auto bytes = endpoint.address().to_v4().to_bytes();
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data(), bytes.size());
  char text[16];
  std::snprintf(text, sizeof text, "%08X:%04X", number, endpoint.port());
  return text;
}

// A socket that its process has closed is listed with inode 0, and as root's whoever had it.
std::optional<uid_t> listed(const char* table, const std::string& peer, const std::string& local) {
  std::ifstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::string number, from, to, state, queues, timer, retries, user, timeout, inode;
    std::istringstream(line) >> number >> from >> to >> state >> queues >> timer >> retries >>
        user >> timeout >> inode;
    if (from != peer || to != local || inode == "0") continue;
    uid_t found = 0;
    const char* const end = user.data() + user.size();
    if (std::from_chars(user.data(), end, found).ptr == end && !user.empty()) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<uid_t> user_of(const tcp::endpoint& peer, const tcp::endpoint& local) {
  if (!peer.address().is_v4() || !local.address().is_v4()) return std::nullopt;
  const std::string from = printed(peer), to = printed(local);
  if (const auto user = listed("/proc/net/tcp", from, to)) return user;
  // A client whose socket is of IPv6 says the same there.
  const std::string mapped = "0000000000000000FFFF0000";
  return listed("/proc/net/tcp6", mapped + from, mapped + to);
}

bool is_owner(uid_t user) {
  if (user == 0 || user == ::geteuid()) return true;
  const char* const before_sudo = ::geteuid() == 0 ? std::getenv("SUDO_UID") : nullptr;
  return before_sudo != nullptr && std::to_string(user) == before_sudo;
}

}  // namespace spotter::emulator
