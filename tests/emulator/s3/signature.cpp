#include "tests/emulator/s3/signature.hpp"

#include <algorithm>
#include <charconv>

#include "tests/emulator/form.hpp"

namespace spotter::emulator::s3 {
namespace {

constexpr std::string_view algorithm = "AWS4-HMAC-SHA256";
constexpr std::string_view empty_hash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr std::string_view unsigned_payload = "UNSIGNED-PAYLOAD";
constexpr const char* of_query[] = {"X-Amz-Algorithm", "X-Amz-Credential",    "X-Amz-Signature",
                                    "X-Amz-Date",      "X-Amz-SignedHeaders", "X-Amz-Expires"};
constexpr int longest_validity = 604800;  // seconds: seven days

using Refusal = tl::unexpected<Refused>;

Refusal refusal(std::string code, std::string message, int status,
                std::vector<std::pair<std::string, std::string>> more = {}) {
  return Refusal(Refused{{std::move(code), std::move(message), status}, std::move(more)});
}

// One signature, wherever the request carries it.
struct Claim {
  Authorization authorization;
  std::string timestamp;
  std::string token;
  std::string payload_hash;
  std::optional<std::chrono::seconds> valid_for;  // presigned
};

std::string parameter(const FormFields& query, std::string_view name) {
  for (const auto& [key, value] : query)
    if (key == name) return value;
  return {};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

tl::expected<Claim, Refused> claim_of_header(const HttpRequest& request) {
  const auto parsed = parse_authorization(request.header("authorization"));
  if (!parsed)
    return refusal("AuthorizationHeaderMalformed",
                   "The authorization header is malformed; " + parsed.error().message, 400);
  Claim claim{*parsed, std::string(request.header("x-amz-date")),
              std::string(request.header("x-amz-security-token")),
              std::string(request.header("x-amz-content-sha256")), std::nullopt};
  if (claim.payload_hash.empty())
    return refusal("InvalidRequest",
                   "Missing required header for this request: x-amz-content-sha256", 400);
  return claim;
}

tl::expected<Claim, Refused> claim_of_query(const FormFields& query) {
  Claim claim;
  const auto wrong = [](const std::string& what) {
    return refusal("AuthorizationQueryParametersError", what, 400);
  };
  for (const char* name : of_query)
    if (parameter(query, name).empty())
      return wrong(
          "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, "
          "X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.");
  if (const auto parsed =
          parse_credential(parameter(query, "X-Amz-Credential"), claim.authorization);
      !parsed)
    return wrong("Error parsing the X-Amz-Credential parameter; " + parsed.error().message);
  const std::string expires = parameter(query, "X-Amz-Expires");
  int seconds = -1;
  const auto [end, failed] =
      std::from_chars(expires.data(), expires.data() + expires.size(), seconds);
  if (failed != std::errc{} || end != expires.data() + expires.size() || seconds < 0 ||
      seconds > longest_validity)
    return wrong("X-Amz-Expires must be a number of seconds up to a week (604800)");
  claim.valid_for = std::chrono::seconds{seconds};
  claim.timestamp = parameter(query, "X-Amz-Date");
  claim.token = parameter(query, "X-Amz-Security-Token");
  claim.authorization.signed_headers = split(parameter(query, "X-Amz-SignedHeaders"), ';');
  claim.authorization.signature = parameter(query, "X-Amz-Signature");
  claim.payload_hash = unsigned_payload;
  return claim;
}

std::optional<Refused> untimely(const Claim& claim, const SignatureRules& rules) {
  const auto sent = parse_timestamp(claim.timestamp);
  if (!sent || !claim.timestamp.starts_with(claim.authorization.day))
    return Refused{
        {"AccessDenied", "AWS authentication requires a valid Date or x-amz-date header", 403}};
  const bool timely = std::any_of(rules.now.begin(), rules.now.end(), [&](WallTime now) {
    if (claim.valid_for) return now - *sent <= *claim.valid_for && *sent - now <= rules.tolerance;
    return now - *sent <= rules.tolerance && *sent - now <= rules.tolerance;
  });
  if (timely) return std::nullopt;
  if (claim.valid_for) return Refused{{"AccessDenied", "Request has expired", 403}};
  return Refused{
      {"RequestTimeTooSkewed",
       "The difference between the request time and the current time is too large.", 403},
      {{"RequestTime", claim.timestamp}}};
}

std::optional<Refused> refused_form(const HttpRequest& request, const Claim& claim,
                                    const SignatureRules& rules) {
  if (claim.authorization.service != "s3")
    return Refused{{"AuthorizationHeaderMalformed",
                    "The authorization header is malformed; incorrect service \"" +
                        claim.authorization.service + "\". This endpoint belongs to \"s3\".",
                    400}};
  if (auto late = untimely(claim, rules)) return late;
  if (const auto name = unsigned_header(request, claim.authorization.signed_headers);
      name && !(claim.valid_for && *name == "x-amz-content-sha256"))
    return Refused{
        {"AccessDenied", "There were headers present in the request which were not signed", 403},
        {{"HeadersNotSigned", *name}}};
  return std::nullopt;
}

// S3 does not normalize a path and escapes it once.
std::string canonical_of(const HttpRequest& request, const Claim& claim) {
  return canonical_request(
      request, claim.authorization.signed_headers,
      {percent_encode(percent_decode(request.path(), Plus::Literal), "/"),
       canonical_query(request.query(), claim.valid_for ? "X-Amz-Signature" : ""),
       claim.payload_hash});
}

world::s3::ChunkSigner chunk_signer(const std::string& key, const Claim& claim) {
  const std::string middle = "\n" + claim.timestamp + "\n" + claim.authorization.scope() + "\n";
  return
      [key, middle](std::string_view kind, const std::string& previous, const std::string& hash) {
        std::string text = std::string(kind) + middle + previous + "\n";
        if (kind == "AWS4-HMAC-SHA256-PAYLOAD") text += std::string(empty_hash) + "\n";
        return signature(key, text + hash);
      };
}

tl::expected<Signer, Refused> check(const HttpRequest& request, const Claim& claim,
                                    const SignatureRules& rules) {
  if (auto refused = refused_form(request, claim, rules)) return Refusal(std::move(*refused));
  const std::string& access_key = claim.authorization.access_key;
  const auto known = rules.key(access_key);
  if (!known)
    return refusal("InvalidAccessKeyId",
                   "The AWS Access Key Id you provided does not exist in our records.", 403,
                   {{"AWSAccessKeyId", access_key}});
  if (claim.token != known->session_token)
    return refusal("InvalidToken", "The provided token is malformed or otherwise invalid.", 400);
  const std::string canonical = canonical_of(request, claim);
  const std::string text = std::string(algorithm) + "\n" + claim.timestamp + "\n" +
                           claim.authorization.scope() + "\n" + sha256_text(canonical);
  const std::string key = rules.derive(known->secret, claim.authorization);
  if (!same_signature(signature(key, text), claim.authorization.signature))
    return refusal("SignatureDoesNotMatch",
                   "The request signature we calculated does not match the signature you provided. "
                   "Check your key and signing method.",
                   403,
                   {{"AWSAccessKeyId", access_key},
                    {"StringToSign", text},
                    {"SignatureProvided", claim.authorization.signature},
                    {"CanonicalRequest", canonical}});
  if (known->expired) return refusal("ExpiredToken", "The provided token has expired.", 400);
  return Signer{known->owner, claim.authorization.region, claim.payload_hash,
                claim.authorization.signature, chunk_signer(key, claim)};
}

}  // namespace

tl::expected<Signer, Refused> verify(const HttpRequest& request, const SignatureRules& rules) {
  const FormFields query = parse_form(request.query(), Plus::Literal);
  if (!request.header("authorization").empty()) {
    const auto claim = claim_of_header(request);
    return claim ? check(request, *claim, rules) : Refusal(claim.error());
  }
  if (std::ranges::any_of(of_query,
                          [&](const char* it) { return !parameter(query, it).empty(); })) {
    const auto claim = claim_of_query(query);
    return claim ? check(request, *claim, rules) : Refusal(claim.error());
  }
  // Signature Version 2, as older SDKs presign for an endpoint that they do not know.
  if (!parameter(query, "AWSAccessKeyId").empty())
    return refusal("InvalidRequest",
                   "The authorization mechanism you have provided is not supported. Please use "
                   "AWS4-HMAC-SHA256.",
                   400);
  return Signer{"", "", std::string(request.header("x-amz-content-sha256")), "", {}};
}

}  // namespace spotter::emulator::s3
