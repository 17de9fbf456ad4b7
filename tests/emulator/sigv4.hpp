// AWS Signature Version 4, the header form, on the server's side: pure functions of the request.
// Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "tests/emulator/http.hpp"

namespace spotter::emulator {

using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;

// The Authorization header, taken apart.
struct Authorization {
  std::string access_key;
  std::string day;      // 20150830
  std::string region;   // us-east-1
  std::string service;  // ec2
  std::vector<std::string> signed_headers;
  std::string signature;  // lower-case hexadecimal

  std::string scope() const { return day + "/" + region + "/" + service + "/aws4_request"; }
};
Result<Authorization> parse_authorization(std::string_view header);

std::string canonical_request(const HttpRequest& request, const Authorization& authorization);

// The pieces, for S3, which canonicalizes otherwise and signs parts of bodies, too.
struct Canonical {
  std::string path;
  std::string query;
  std::string payload_hash;
};
std::string canonical_request(const HttpRequest& request,
                              const std::vector<std::string>& signed_headers,
                              const Canonical& canonical);
// Sorted, escaped; `except`: a name to leave out.
std::string canonical_query(std::string_view query, std::string_view except = {});
std::string signing_key(std::string_view secret, const Authorization& authorization);
std::string signature(const std::string& key, std::string_view text);  // hexadecimal
std::string sha256_text(std::string_view bytes);                       // hexadecimal
std::optional<WallTime> parse_timestamp(std::string_view text);        // 20150830T123600Z
// "KEY/DAY/REGION/SERVICE/aws4_request" into the authorization's fields.
Result<void> parse_credential(std::string_view text, Authorization& into);
bool same_signature(std::string_view one, std::string_view other);  // in constant time
// The first header that AWS wants among the signed ones and is not: host, x-amz-*.
std::optional<std::string> unsigned_header(const HttpRequest& request,
                                           const std::vector<std::string>& names);

// The right signature. `timestamp`: X-Amz-Date as sent, 20150830T123600Z.
std::string expected_signature(const HttpRequest& request, const Authorization& authorization,
                               std::string_view timestamp, std::string_view secret);

struct SigningKey {
  std::string secret;
  std::string session_token;  // empty: a long-term key
  std::string owner;          // who signs with it
  bool expired = false;       // S3 says so; to EC2 it is unknown then
};

// An EC2 error: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
struct Refusal {
  int status;
  std::string code;
  std::string message;
};

// The same as the services of the Query protocol say it, EC2 apart, and those that speak JSON.
// https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html,
// https://docs.aws.amazon.com/batch/latest/APIReference/CommonErrors.html
Refusal in_query(const Refusal& why);
Refusal in_json(const Refusal& why);

struct Verification {
  std::string region;
  std::string service;
  // The clocks by which the request may be timely: the real one, and the world's when it runs
  // faster.
  std::vector<WallTime> now;
  std::chrono::seconds tolerance{300};  // "more than 5 minutes": RequestExpired
  std::function<std::optional<SigningKey>(std::string_view access_key)> key;
};

// One endpoint stands for those of all regions: a request is for the region that it is signed for.
std::string signed_region(const HttpRequest& request);

// The owner of the key that signed this request, or why it was not accepted.
tl::expected<std::string, Refusal> verify(const HttpRequest& request, const Verification& rules);

}  // namespace spotter::emulator
