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

#include "agent/wire/result.hpp"
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

// What the signature ought to be. `timestamp`: X-Amz-Date as sent, 20150830T123600Z.
std::string expected_signature(const HttpRequest& request, const Authorization& authorization,
                               std::string_view timestamp, std::string_view secret);

struct SigningKey {
  std::string secret;
  std::string session_token;  // empty: a long-term key
  std::string owner;          // who signs with it
};

// An EC2 error: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
struct Refusal {
  int status;
  std::string code;
  std::string message;
};

struct Verification {
  std::string region;
  std::string service;
  // The clocks by which the request may be timely: the real one, and the world's when it runs
  // faster.
  std::vector<WallTime> now;
  std::chrono::seconds tolerance{300};  // "more than 5 minutes": RequestExpired
  std::function<std::optional<SigningKey>(std::string_view access_key)> key;
};

// The owner of the key that signed this request, or why it was not accepted.
tl::expected<std::string, Refusal> verify(const HttpRequest& request, const Verification& rules);

}  // namespace spotter::emulator
