#include "agent/config/git_server.hpp"

#include <string_view>

namespace spotter::wire {
namespace {

constexpr std::string_view tls = "https://";
constexpr std::string_view plain = "http://";
constexpr std::string_view name_letters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

bool is_all_of(std::string_view text, std::string_view letters) {
  return !text.empty() && text.find_first_not_of(letters) == text.npos;
}

// Excludes characters that are special in git's comparison of URLs, such as `*`.
bool is_host(std::string_view host) {
  constexpr std::string_view digits = "0123456789";
  constexpr std::string_view address = "0123456789abcdefABCDEF:.";
  const bool bracketed = host.starts_with('[');
  const auto colon = host.find(':', bracketed ? host.find(']') : 0);
  if (colon != host.npos) {
    if (!is_all_of(host.substr(colon + 1), digits)) return false;
    host = host.substr(0, colon);
  }
  if (!bracketed) return is_all_of(host, name_letters);
  return host.ends_with(']') && is_all_of(host.substr(1, host.size() - 2), address);
}

bool is_this_machine(std::string_view host) {
  for (const std::string_view name : {"localhost", "127.0.0.1", "[::1]"})
    if (host == name || (host.starts_with(name) && host[name.size()] == ':')) return true;
  return false;
}

}  // namespace

Result<std::string> token_server(const std::string& url) {
  const bool safe = url.starts_with(tls);
  if (!safe && !url.starts_with(plain)) return std::string();
  const std::string scheme(safe ? tls : plain);
  std::string host = url.substr(scheme.size());
  host = host.substr(0, host.find_first_of("/?#"));
  // A program that parses URLs differently from git must not find another server in this one.
  const auto at = host.find('@');
  const std::string user_letters = std::string(name_letters) + "+~";  // gitlab+deploy-token-1
  const bool plain_user = at == host.npos || at == 0 || is_all_of(host.substr(0, at), user_letters);
  if (at != host.npos) host.erase(0, at + 1);
  if (!plain_user || !is_host(host)) return failure("no server is named in " + url);
  if (!safe && !is_this_machine(host))
    return failure(url +
                   " has no TLS, and code.token is sent over TLS alone: give the server's "
                   "https:// address, or take code.token out");
  return scheme + host;
}

}  // namespace spotter::wire
