#include "tests/emulator/visitor.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "agent/report/page/feed.hpp"

namespace spotter::emulator {
namespace {

std::string name_of(std::string_view host) {
  const auto bracket = host.find(']');
  const auto colon = host.rfind(':');
  const bool bare = bracket != host.npos && colon < bracket;  // an IPv6 address without a port
  if (!bare) host = host.substr(0, colon);
  std::string name(host);
  std::ranges::transform(name, name.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return name;
}

bool is_loopback(const std::string& name) {
  in_addr address{};
  constexpr std::uint32_t loopback = 127;
  return ::inet_pton(AF_INET, name.c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24 == loopback;
}

// The metadata service's two, and this machine's as qemu shows it to what it runs.
constexpr std::array<std::string_view, 3> addresses_of_instances = {"169.254.169.254",
                                                                    "[fd00:ec2::254]", "10.0.2.2"};

// Each browser takes .localhost for this machine, and none but AWS answers for its own names.
constexpr std::array<std::string_view, 3> domains = {".localhost", ".amazonaws.com",
                                                     ".amazonaws.com.cn"};

}  // namespace

bool is_served_name(std::string_view host, std::string_view local) {
  const std::string name = name_of(host);
  if (name == local || name == "localhost" || name == "[::1]" || is_loopback(name)) return true;
  if (std::ranges::find(addresses_of_instances, name) != addresses_of_instances.end()) return true;
  return std::ranges::any_of(
      domains, [&](std::string_view it) { return name.size() > it.size() && name.ends_with(it); });
}

// https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header: "none" is a person who has typed the
// address; "same-site" may be another's server on another port of this machine.
std::optional<std::string> refusal_of_visitor(const HttpRequest& request, std::string_view local) {
  int hosts = 0;
  for (const auto& [name, value] : request.headers) {
    if (name != "host") continue;
    if (++hosts > 1 || !is_served_name(value, local))
      return "this is '" + value + "' to you: ask by address, or as localhost";
  }
  if (hosts == 0) return "the request has no Host header";
  const std::string_view host = request.header("host"), origin = request.header("origin");
  if (!page::is_same_origin(host, origin))
    return "a page of " + std::string(origin) + " may not ask for that";
  const std::string_view site = request.header("sec-fetch-site");
  if (!site.empty() && site != "same-origin" && site != "none")
    return "a page of another origin may not ask for that: type the address";
  return std::nullopt;
}

}  // namespace spotter::emulator
