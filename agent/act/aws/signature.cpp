#include "agent/act/aws/signature.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace spotter::act {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string hexadecimal(const Digest& digest) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : digest) {
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

std::string sha256(std::string_view text) {
  Digest digest;
  SHA256(bytes(text), text.size(), digest.data());
  return hexadecimal(digest);
}

Digest hmac(std::string_view key, std::string_view text) {
  Digest digest;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes(text), text.size(),
       digest.data(), nullptr);
  return digest;
}

std::string_view view(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

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
std::map<std::string, std::string> signed_headers(const io::HttpRequest& request,
                                                  const std::string& host) {
  std::map<std::string, std::string> chosen{{"host", host}};
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
  const std::string day = time.substr(0, 8);
  request.headers.emplace_back("X-Amz-Date", time);
  if (!credentials.session_token.empty()) {
    request.headers.emplace_back("X-Amz-Security-Token", credentials.session_token);
  }

  const UrlParts url = parse_url(request.url);
  std::string canonical_headers;
  std::string names;
  for (const auto& [name, value] : signed_headers(request, url.host)) {
    canonical_headers += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical_request = request.method + "\n" + url.path + "\n" + url.query + "\n" +
                                        canonical_headers + "\n" + names + "\n" +
                                        sha256(request.body);

  const std::string credential_scope =
      day + "/" + scope.region + "/" + scope.service + "/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + time + "\n" + credential_scope + "\n" + sha256(canonical_request);
  const Digest of_day = hmac("AWS4" + credentials.secret_access_key, day);
  const Digest of_region = hmac(view(of_day), scope.region);
  const Digest of_service = hmac(view(of_region), scope.service);
  const Digest key = hmac(view(of_service), "aws4_request");
  request.headers.emplace_back("Authorization",
                               "AWS4-HMAC-SHA256 Credential=" + credentials.access_key_id + "/" +
                                   credential_scope + ", SignedHeaders=" + names +
                                   ", Signature=" + hexadecimal(hmac(view(key), to_sign)));
}

}  // namespace spotter::act
