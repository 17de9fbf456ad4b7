#include "agent/aws/formats/sigv4.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string hmac(std::string_view key, std::string_view message) {
  Digest digest;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes(message), message.size(),
       digest.data(), nullptr);
  return text(digest);
}

std::string derived_key(const std::string& secret, const std::string& day,
                        const SigningScope& scope) {
  return hmac(hmac(hmac(hmac("AWS4" + secret, day), scope.region), scope.service), "aws4_request");
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
  UrlParts parts{host_header(std::string(url.substr(0, end_of_host)), encrypted), {}, {}};
  const std::string_view rest = url.substr(end_of_host);
  const auto question = std::min(rest.find('?'), rest.size());
  parts.path = question == 0 ? "/" : std::string(rest.substr(0, question));
  if (question < rest.size()) parts.query = std::string(rest.substr(question + 1));
  return parts;
}

}  // namespace

std::string sha256_hex(std::string_view message) {
  Digest digest;
  SHA256(bytes(message), message.size(), digest.data());
  return hexadecimal(text(digest));
}

std::string Signer::authorization(const Canonical& request, const Credentials& credentials,
                                  const SigningScope& scope) {
  const std::string time = to_amz_date(scope.time);
  const std::string credential_scope =
      time.substr(0, 8) + "/" + scope.region + "/" + scope.service + "/aws4_request";
  std::string canonical;
  canonical.append(request.method).append("\n").append(request.path).append("\n");
  canonical.append(request.query).append("\n");
  std::string names;
  for (const auto& [name, value] : request.headers) {
    canonical.append(name).append(":").append(value).append("\n");
    names.append(names.empty() ? "" : ";").append(name);
  }
  canonical.append("\n").append(names).append("\n").append(request.payload);

  const std::string source = credentials.secret_access_key + "\n" + credential_scope;
  if (source != derived_from_) {
    key_ = derived_key(credentials.secret_access_key, time.substr(0, 8), scope);
    derived_from_ = source;
  }
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + time + "\n" + credential_scope + "\n" + sha256_hex(canonical);
  return "AWS4-HMAC-SHA256 Credential=" + credentials.access_key_id + "/" + credential_scope +
         ", SignedHeaders=" + names + ", Signature=" + hexadecimal(hmac(key_, to_sign));
}

std::string host_header(std::string host, bool encrypted) {
  const std::string_view own_port = encrypted ? ":443" : ":80";
  if (host.ends_with(own_port)) host.resize(host.size() - own_port.size());
  return host;
}

void sign(std::vector<std::pair<std::string, std::string>>& headers, std::string_view method,
          std::string_view url, std::string_view body, const Credentials& credentials,
          const SigningScope& scope) {
  headers.emplace_back("x-amz-date", to_amz_date(scope.time));
  if (!credentials.session_token.empty())
    headers.emplace_back("x-amz-security-token", credentials.session_token);
  const UrlParts parts = parse_url(url);
  const std::string payload = sha256_hex(body);
  Canonical canonical{method, parts.path, parts.query, {{"host", parts.host}}, payload};
  for (const auto& [name, value] : headers) {
    const std::string lower = lower_case(name);
    if (lower == "content-type" || lower.starts_with("x-amz-")) canonical.headers[lower] = value;
  }
  headers.emplace_back("authorization", Signer().authorization(canonical, credentials, scope));
}

std::string git_password(std::string_view host, std::string_view path,
                         const Credentials& credentials, const SigningScope& scope) {
  std::string time = to_amz_date(scope.time);
  time.pop_back();  // without the Z, which only the password has
  const std::string day = time.substr(0, 8);
  const std::string canonical =
      "GIT\n" + std::string(path) + "\n\nhost:" + std::string(host) + "\n\nhost\n";
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + day + "/" + scope.region + "/" +
                              scope.service + "/aws4_request\n" + sha256_hex(canonical);
  return time + "Z" +
         hexadecimal(hmac(derived_key(credentials.secret_access_key, day, scope), to_sign));
}

}  // namespace spotter::wire
