#include "agent/aws/signature.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace spotter::act {
namespace {

struct UrlParts {
  std::string host;
  std::string path;
  std::string query;
};

UrlParts parse_url(std::string_view url) {
  const bool encrypted = url.starts_with("https://");
  url.remove_prefix(std::min(url.size(), url.find("://") + 3));
  const auto end_of_host = std::min(url.find_first_of("/?"), url.size());
  UrlParts parts{std::string(url.substr(0, end_of_host)), {}, {}};
  // The Host header, which is what gets signed, leaves the scheme's own port out.
  const std::string_view own_port = encrypted ? ":443" : ":80";
  if (parts.host.ends_with(own_port)) parts.host.resize(parts.host.size() - own_port.size());
  const std::string_view rest = url.substr(end_of_host);
  const auto question = std::min(rest.find('?'), rest.size());
  parts.path = question == 0 ? "/" : std::string(rest.substr(0, question));
  if (question < rest.size()) parts.query = std::string(rest.substr(question + 1));
  return parts;
}

// Name in lower case -> value: what is signed.
std::map<std::string, std::string, std::less<>> signed_headers(const io::HttpRequest& request,
                                                               const std::string& host) {
  std::map<std::string, std::string, std::less<>> chosen{{"host", host}};
  for (const auto& [name, value] : request.headers) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](char letter) {
      return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    if (lower == "content-type" || lower.starts_with("x-amz-")) chosen[lower] = value;
  }
  return chosen;
}

}  // namespace

void sign(io::HttpRequest& request, const wire::Credentials& credentials,
          const SigningScope& scope) {
  const std::string time = wire::to_amz_date(scope.time);
  request.headers.emplace_back("X-Amz-Date", time);
  if (!credentials.session_token.empty()) {
    request.headers.emplace_back("X-Amz-Security-Token", credentials.session_token);
  }

  const UrlParts url = parse_url(request.url);
  const std::string payload = wire::sha256_hex(request.body);
  const wire::Canonical canonical{request.method, url.path, url.query,
                                  signed_headers(request, url.host), payload};
  request.headers.emplace_back("Authorization",
                               wire::Signer().authorization(canonical, credentials, scope));
}

}  // namespace spotter::act
