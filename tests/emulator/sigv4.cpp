#include "tests/emulator/sigv4.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstdio>

#include "tests/emulator/form.hpp"
#include "tests/world/s3/digest.hpp"

namespace spotter::emulator {
namespace {

constexpr std::string_view algorithm = "AWS4-HMAC-SHA256";

std::string sha256(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  return {reinterpret_cast<const char*>(digest), size};
}

std::string hmac(std::string_view key, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  return {reinterpret_cast<const char*>(digest), size};
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// "." and ".." are resolved, empty segments dropped; a slash at the end stays.
std::string canonical_path(std::string_view path) {
  std::vector<std::string> kept;
  for (auto& segment : split(path, '/')) {
    if (segment == ".." && !kept.empty()) kept.pop_back();
    if (segment.empty() || segment == "." || segment == "..") continue;
    kept.push_back(std::move(segment));
  }
  std::string result;
  for (const auto& segment : kept) result += "/" + percent_encode(segment);
  const bool folder = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
  return result.empty() || folder ? result + "/" : result;
}

// Spaces around it go, a run of them becomes one.
std::string trimmed(std::string_view value) {
  std::string result;
  for (const char c : value) {
    const bool space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!space) result += c;
    if (space && !result.empty() && result.back() != ' ') result += ' ';
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

std::string canonical_headers(const HttpRequest& request, const std::vector<std::string>& names) {
  std::string result;
  for (const auto& name : names) {
    std::string values;
    bool first = true;
    for (const auto& [key, value] : request.headers) {
      if (key != name) continue;
      values += (first ? "" : ",") + trimmed(value);
      first = false;
    }
    result += name + ":" + values + "\n";
  }
  return result;
}

std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const auto& name : names) result += (result.empty() ? "" : ";") + name;
  return result;
}

bool timely(WallTime sent, const Verification& rules) {
  return std::any_of(rules.now.begin(), rules.now.end(), [&](WallTime now) {
    return sent - now <= rules.tolerance && now - sent <= rules.tolerance;
  });
}

std::optional<Refusal> refused_form(const HttpRequest& request, const Authorization& authorization,
                                    const Verification& rules) {
  const auto timestamp = request.header("x-amz-date");
  const auto sent = parse_timestamp(timestamp);
  if (!sent || !timestamp.starts_with(authorization.day))
    return Refusal{400, "IncompleteSignature",
                   "Date must be in ISO-8601 'basic format' in X-Amz-Date, and on the day of the "
                   "credential scope. Got '" +
                       std::string(timestamp) + "'."};
  if (!timely(*sent, rules)) return Refusal{400, "RequestExpired", "Request has expired."};
  if (authorization.region != rules.region || authorization.service != rules.service)
    return Refusal{401, "AuthFailure",
                   "Credential should be scoped to " + rules.region + "/" + rules.service +
                       ", not " + authorization.region + "/" + authorization.service + "."};
  if (const auto name = unsigned_header(request, authorization.signed_headers))
    return Refusal{403, "SignatureDoesNotMatch",
                   "'" + *name + "' must be a 'SignedHeader' in the AWS Authorization."};
  const auto hash = request.header("x-amz-content-sha256");
  if (!hash.empty() && hash != world::s3::hexadecimal(sha256(request.body)))
    return Refusal{403, "SignatureDoesNotMatch",
                   "The value of x-amz-content-sha256 is not the hash of the body."};
  return std::nullopt;
}

}  // namespace

Result<void> parse_credential(std::string_view text, Authorization& into) {
  const auto scope = split(text, '/');
  if (scope.size() != 5 || scope[4] != "aws4_request")
    return failure("Authorization: Credential is not KEY/DAY/REGION/SERVICE/aws4_request");
  into.access_key = scope[0];
  into.day = scope[1];
  into.region = scope[2];
  into.service = scope[3];
  return {};
}

Result<Authorization> parse_authorization(std::string_view header) {
  if (!header.starts_with(algorithm))
    return failure("Authorization is not " + std::string(algorithm));
  header.remove_prefix(algorithm.size());
  Authorization result;
  for (const auto& part : split(header, ',')) {
    const std::string field = trimmed(part);
    const auto equals = field.find('=');
    if (equals == std::string::npos) return failure("Authorization: '" + field + "' has no '='");
    const std::string name = field.substr(0, equals), value = field.substr(equals + 1);
    if (name == "SignedHeaders") result.signed_headers = split(value, ';');
    if (name == "Signature") result.signature = value;
    if (name != "Credential") continue;
    if (const auto parsed = parse_credential(value, result); !parsed)
      return tl::unexpected(parsed.error());
  }
  if (result.access_key.empty() || result.signed_headers.empty() || result.signature.empty())
    return failure("Authorization requires Credential, SignedHeaders and Signature");
  return result;
}

std::string canonical_request(const HttpRequest& request, const Authorization& authorization) {
  return canonical_request(request, authorization.signed_headers,
                           {canonical_path(request.path()), canonical_query(request.query()),
                            sha256_text(request.body)});
}

std::string canonical_request(const HttpRequest& request,
                              const std::vector<std::string>& signed_headers,
                              const Canonical& canonical) {
  return request.method + "\n" + canonical.path + "\n" + canonical.query + "\n" +
         canonical_headers(request, signed_headers) + "\n" + joined(signed_headers) + "\n" +
         canonical.payload_hash;
}

std::string canonical_query(std::string_view query, std::string_view except) {
  FormFields fields;
  for (const auto& [name, value] : parse_form(query, Plus::Literal))
    if (except.empty() || name != except)
      fields.emplace_back(percent_encode(name), percent_encode(value));
  std::sort(fields.begin(), fields.end());
  std::string result;
  for (const auto& [name, value] : fields)
    result += (result.empty() ? "" : "&") + name + "=" + value;
  return result;
}

std::optional<WallTime> parse_timestamp(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  const std::string copy(text);
  if (copy.size() != 16 ||
      std::sscanf(copy.c_str(), "%4d%2d%2dT%2d%2d%2dZ%n", &year, &month, &day, &hour, &minute,
                  &second, &used) != 6 ||
      used != 16)
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{year},
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days{date} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
         std::chrono::seconds{second};
}

std::optional<std::string> unsigned_header(const HttpRequest& request,
                                           const std::vector<std::string>& names) {
  const auto covered = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!covered("host")) return "host";
  for (const auto& [name, value] : request.headers)
    if (name.starts_with("x-amz-") && !covered(name)) return name;
  return std::nullopt;
}

std::string sha256_text(std::string_view bytes) { return world::s3::hexadecimal(sha256(bytes)); }

std::string signing_key(std::string_view secret, const Authorization& authorization) {
  const auto day_key = hmac("AWS4" + std::string(secret), authorization.day);
  const auto service_key = hmac(hmac(day_key, authorization.region), authorization.service);
  return hmac(service_key, "aws4_request");
}

std::string signature(const std::string& key, std::string_view text) {
  return world::s3::hexadecimal(hmac(key, text));
}

bool same_signature(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string expected_signature(const HttpRequest& request, const Authorization& authorization,
                               std::string_view timestamp, std::string_view secret) {
  const std::string text = std::string(algorithm) + "\n" + std::string(timestamp) + "\n" +
                           authorization.scope() + "\n" +
                           sha256_text(canonical_request(request, authorization));
  return signature(signing_key(secret, authorization), text);
}

std::string signed_region(const HttpRequest& request) {
  const auto authorization = parse_authorization(request.header("authorization"));
  return authorization ? authorization->region : std::string();
}

Refusal in_query(const Refusal& why) {
  if (why.code != "AuthFailure") return why;
  return {403, "InvalidClientTokenId", "The security token included in the request is invalid."};
}

Refusal in_json(const Refusal& why) {
  if (why.code == "SignatureDoesNotMatch" || why.code == "RequestExpired")
    return {403, "InvalidSignatureException", why.message};
  if (why.code == "AuthFailure" || why.code == "InvalidClientTokenId")
    return {403, "UnrecognizedClientException",
            "The security token included in the request is invalid."};
  return {why.status, why.code + "Exception", why.message};
}

tl::expected<std::string, Refusal> verify(const HttpRequest& request, const Verification& rules) {
  const auto header = request.header("authorization");
  if (header.empty())
    return tl::unexpected(Refusal{403, "MissingAuthenticationToken",
                                  "Request must contain either a valid (registered) AWS access key "
                                  "ID or X.509 certificate."});
  const auto authorization = parse_authorization(header);
  if (!authorization)
    return tl::unexpected(Refusal{400, "IncompleteSignature", authorization.error().message});
  if (auto refusal = refused_form(request, *authorization, rules))
    return tl::unexpected(std::move(*refusal));
  const auto key = rules.key(authorization->access_key);
  if (!key)
    return tl::unexpected(Refusal{401, "AuthFailure",
                                  "AWS was not able to validate the provided access credentials"});
  if (request.header("x-amz-security-token") != key->session_token)
    return tl::unexpected(Refusal{403, "InvalidClientTokenId",
                                  "The security token included in the request is invalid."});
  const auto expected =
      expected_signature(request, *authorization, request.header("x-amz-date"), key->secret);
  if (!same_signature(expected, authorization->signature))
    return tl::unexpected(
        Refusal{403, "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature "
                "you provided. Check your AWS Secret Access Key and signing method."});
  return key->owner;
}

}  // namespace spotter::emulator
