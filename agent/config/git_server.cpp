#include "agent/config/git_server.hpp"

#include <algorithm>

#include "agent/aws/formats/partition.hpp"
#include "agent/aws/formats/s3.hpp"
#include "agent/base/text.hpp"

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

// gitlab+deploy-token-1, a mail address, whose @ is %40 in a URL, or CORP%5Cme: whatever a name may
// have, but not what ends the server's part of a URL.
bool is_user(std::string_view name) {
  const auto is_special = [](unsigned char each) {
    return each < ' ' || each == 0x7F || std::string_view("/?#%").find(each) != std::string::npos;
  };
  return is_all_of(name, std::string(name_letters) + "+~%") &&
         std::ranges::none_of(unescape_form(name), is_special);
}

bool is_this_machine(std::string_view host) {
  for (const std::string_view name : {"localhost", "127.0.0.1", "[::1]"})
    if (host == name || (host.starts_with(name) && host[name.size()] == ':')) return true;
  return false;
}

// Follows git's relative_url(): each ../ takes one part off the base's end.
std::string beside(std::string base, std::string_view url) {
  while (base.ends_with('/')) base.pop_back();
  if (base.ends_with("/.git")) base.resize(base.size() - 5);  // a repository in its work tree
  while (url.starts_with("./") || url.starts_with("../")) {
    if (url.starts_with("../")) {
      const auto cut = base.find_last_of("/:");
      base.resize(cut == base.npos ? 0 : cut + (base[cut] == ':' ? 1 : 0));
    }
    url.remove_prefix(url[1] == '/' ? 2 : 3);
  }
  while (url.ends_with('/')) url.remove_suffix(1);
  return base + (base.ends_with(':') ? "" : "/") + std::string(url);
}

// "example.com" of an address by SSH; the path goes to `path`.
std::string ssh_host(std::string_view url, std::string& path) {
  const auto scheme = url.find("://");
  const bool whole = scheme != url.npos;
  if (whole) url.remove_prefix(scheme + 3);
  const auto end = std::min(url.find(whole ? '/' : ':'), url.size());
  path = url.substr(std::min(end + 1, url.size()));
  std::string host(url.substr(0, end));
  host.erase(0, host.find('@') + 1);
  return host;
}

// "name@" of an address by HTTP.
std::string user_in(std::string_view url) {
  if (!url.starts_with("http")) return {};
  url.remove_prefix(std::min(url.find("://") + 3, url.size()));
  return std::string(url.substr(0, url.substr(0, url.find_first_of("/?#")).find('@') + 1));
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
  const bool plain_user = at == host.npos || at == 0 || is_user(host.substr(0, at));
  if (at != host.npos) host.erase(0, at + 1);
  if (!plain_user || !is_host(host)) return failure("no server is named in " + url);
  if (!safe && !is_this_machine(host))
    return failure(url +
                   " has no TLS, and code.token is sent over TLS alone: give the server's "
                   "https:// address, or take code.token out");
  return scheme + host;
}

bool is_ssh_address(std::string_view url) {
  if (url.find("://") != url.npos)
    return url.starts_with("ssh://") || url.starts_with("git+ssh://");
  const auto colon = url.find(':');
  return colon != url.npos && colon > 0 && colon < url.find('/') && url.find("::") == url.npos;
}

std::string git_user(std::string_view server, std::string_view token) {
  if (server != "https://bitbucket.org") return "x-access-token";
  return token.starts_with("ATATT") ? "x-bitbucket-api-token-auth" : "x-token-auth";
}

Result<DeployKey> parse_deploy_key(std::string_view secret) {
  constexpr std::string_view begins = "-----BEGIN ", ends = "-----END ", mark = "PRIVATE KEY-----";
  std::string text(secret);
  std::erase(text, '\r');
  const auto end = text.find(ends);
  const auto whole = text.find(mark, std::min(end, text.size()));
  if (!text.starts_with(begins) || whole == text.npos)
    return failure(
        "code.repository is an address of SSH, whose secret in code.token is a private key, from "
        "-----BEGIN to -----END ... PRIVATE KEY-----, and this is none");
  const auto after = whole + mark.size();
  return DeployKey{text.substr(0, after) + "\n", text.substr(after) + "\n"};
}

std::optional<CodeCommit> codecommit_repository(std::string_view url) {
  constexpr std::string_view helper = "codecommit::", service = "git-codecommit.";
  constexpr std::string_view path = "/v1/repos/";
  CodeCommit found;
  const auto host_in = [&](const std::string& region) {
    return std::string(service) + region + "." + std::string(partition_of(region).suffix);
  };
  if (url.starts_with(helper)) {
    url.remove_prefix(helper.size());
    const auto end = url.find("://");
    if (end == url.npos) return std::nullopt;
    found.region = url.substr(0, end);
    found.path = std::string(path) + std::string(url.substr(end + 3));
    found.host = host_in(found.region);
  } else {
    if (!url.starts_with(tls)) return std::nullopt;
    url.remove_prefix(tls.size());
    const auto end = std::min(url.find('/'), url.size());
    found.host = url.substr(0, end);
    found.path = url.substr(end);
    if (!found.host.starts_with(service)) return std::nullopt;
    found.region = found.host.substr(service.size());
    found.region.resize(std::min(found.region.find('.'), found.region.size()));
  }
  const bool known = found.host == host_in(found.region) && found.path.starts_with(path) &&
                     is_all_of(found.path.substr(path.size()), name_letters) &&
                     is_all_of(found.region, name_letters);
  return known ? std::optional(found) : std::nullopt;
}

bool same_server(const std::string& one, const std::string& other) {
  std::string path;
  if (is_ssh_address(one) || is_ssh_address(other))
    return is_ssh_address(one) && is_ssh_address(other) &&
           ssh_host(one, path) == ssh_host(other, path);
  const auto first = token_server(one), second = token_server(other);
  return first && second && !first->empty() && *first == *second;
}

Result<std::string> submodule_url(const std::string& base, const std::string& url,
                                  const std::string& token_server) {
  const bool relative = url.starts_with("./") || url.starts_with("../");
  std::string it = relative ? beside(base, url) : url;
  const auto is_path = [](std::string_view text) {
    return text.starts_with('/') || text.starts_with("file:");
  };
  if (is_path(it) && !is_path(base)) return failure("its address is a path of a machine: " + url);
  // Keys of the instance's role open these, and may open other jobs' code.
  const auto aws = codecommit_repository(it), ours = codecommit_repository(base);
  if (it.starts_with("s3://") || (aws && (!ours || aws->host != ours->host)))
    return failure("its address is of AWS, and of another server than the code's own: " + url);
  std::string path;
  if (token_server.starts_with(tls) && is_ssh_address(it) &&
      ssh_host(it, path) == token_server.substr(tls.size()))
    it = token_server + "/" + path;
  // The token is of the user whom the repository's address names.
  if (same_server(it, base) && user_in(it).empty() && !user_in(base).empty())
    it.insert(it.find("://") + 3, user_in(base));
  return it;
}

}  // namespace spotter::wire
