#include "agent/aws/s3/judge.hpp"

#include <algorithm>
#include <array>

#include "agent/aws/formats/iam.hpp"

namespace spotter::s3 {
namespace {

using FailureKind = Failure::Kind;
using Next = Judgement::Next;

template <std::size_t count>
bool among(const std::array<std::string_view, count>& codes, std::string_view code) {
  return std::ranges::find(codes, code) != codes.end();
}

constexpr std::array<std::string_view, 6> slow{"SlowDown",         "ServiceUnavailable",
                                               "Throttling",       "ThrottlingException",
                                               "RequestThrottled", "TooManyRequests"};
// A body that was damaged on its way counts as S3's trouble: it is sent again.
constexpr std::array<std::string_view, 7> transient{
    "InternalError", "RequestTimeout", "OperationAborted",         "ConditionalRequestConflict",
    "BadDigest",     "IncompleteBody", "XAmzContentSHA256Mismatch"};
constexpr std::array<std::string_view, 4> elsewhere{"PermanentRedirect", "TemporaryRedirect",
                                                    "AuthorizationHeaderMalformed",
                                                    "IllegalLocationConstraintException"};
constexpr std::array<std::string_view, 3> expired{"ExpiredToken", "TokenRefreshRequired",
                                                  "ExpiredTokenException"};
constexpr std::array<std::string_view, 7> forbidden{
    "AccessDenied",   "AllAccessDisabled", "InvalidAccessKeyId", "SignatureDoesNotMatch",
    "AccountProblem", "InvalidToken",      "InvalidPayer"};

bool is_read(const Request& request) { return request.method == "GET" || request.method == "HEAD"; }

FailureKind kind_of(const Request& request, int status, std::string_view code) {
  if (code == "NoSuchBucket") return FailureKind::NoSuchBucket;
  if (code == "NoSuchKey") return FailureKind::NoSuchKey;
  if (code == "PreconditionFailed" || status == 412) {
    return is_read(request) ? FailureKind::Changed : FailureKind::Exists;
  }
  if (among(forbidden, code)) return FailureKind::Permission;
  if (!code.empty()) return FailureKind::Refused;
  // The answer to HEAD has no body.
  if (status == 404)
    return request.key.empty() ? FailureKind::NoSuchBucket : FailureKind::NoSuchKey;
  return status == 401 || status == 403 ? FailureKind::Permission : FailureKind::Refused;
}

bool is_completion(const Request& request) {
  return request.method == "POST" &&
         std::ranges::any_of(request.query, [](const auto& it) { return it.first == "uploadId"; });
}

Next next_of(int status, std::string_view code, bool names_another_region) {
  if (among(slow, code) || status == 503 || status == 429) return Next::SlowDown;
  if (among(transient, code)) return Next::Retry;
  if (status >= 500 && status != 501) return Next::Retry;
  if (among(elsewhere, code) || status == 301 || status == 307) return Next::Elsewhere;
  if (status == 400 && code.empty() && names_another_region) return Next::Elsewhere;  // HEAD
  if (among(expired, code)) return Next::NewKeys;
  if (code == "RequestTimeTooSkewed") return Next::NewClock;
  return Next::Fail;
}

// Of a redirect's Location: its host.
std::string host_of(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == url.npos) return {};
  url.remove_prefix(scheme + 3);
  return std::string(url.substr(0, url.find_first_of("/?")));
}

// The IAM action that S3 wanted.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
const char* action_of(const Request& request) {
  if (request.key.empty()) return "s3:ListBucket";
  if (is_read(request)) return "s3:GetObject";
  if (request.method != "DELETE") return "s3:PutObject";
  for (const auto& [name, value] : request.query)
    if (name == "uploadId") return "s3:AbortMultipartUpload";
  return "s3:DeleteObject";
}

}  // namespace

Judgement judge(const Request& request, const Answer& answer) {
  wire::S3Refusal refusal = wire::parse_s3_error(answer.body);
  Judgement judgement;
  judgement.region = answer.header("x-amz-bucket-region");
  if (judgement.region.empty()) judgement.region = std::move(refusal.region);
  judgement.endpoint = std::move(refusal.endpoint);
  if (judgement.endpoint.empty()) judgement.endpoint = host_of(answer.header("location"));
  judgement.next = next_of(answer.status, refusal.code, !judgement.region.empty());
  // The upload is of no use any more: upload() begins another.
  if (answer.status == 409 && is_completion(request)) judgement.next = Next::Fail;
  judgement.failure = {.kind = kind_of(request, answer.status, refusal.code),
                       .code = std::move(refusal.code),
                       .message = std::move(refusal.message),
                       .bucket = request.bucket,
                       .key = request.key,
                       .status = answer.status};
  // The answer to HEAD has no code.
  Failure& failure = judgement.failure;
  if (failure.kind == FailureKind::Permission &&
      (failure.code == "AccessDenied" || failure.code.empty()))
    failure.message = wire::missing_permission(action_of(request), failure.message);
  return judgement;
}

}  // namespace spotter::s3
