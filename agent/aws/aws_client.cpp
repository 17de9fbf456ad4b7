#include "agent/aws/aws_client.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "agent/aws/formats/iam.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/base/text.hpp"
#include "agent/io/log.hpp"
#include "agent/wire/events.hpp"

namespace spotter::act {
RetryPolicy retry_policy(const Environment& environment) {
  Profile profile = own_profile(environment);
  const auto setting = [&](const char* variable, const char* key) {
    const std::string set = environment.get(variable);
    return set.empty() ? profile[key] : set;
  };
  RetryPolicy policy;
  const std::string attempts = setting("AWS_MAX_ATTEMPTS", "max_attempts");
  if (const auto given = number_of_text<int>(attempts); given && *given > 0) {
    policy.attempts = *given;
  } else if (!attempts.empty()) {
    spdlog::warn("AWS_MAX_ATTEMPTS: '{}' is no number above 0; {} is used", attempts,
                 policy.attempts);
  }
  const std::string mode = setting("AWS_RETRY_MODE", "retry_mode");
  if (!mode.empty() && mode != "standard") {
    spdlog::warn("AWS_RETRY_MODE: calls are retried as in the mode `standard`, not `{}`", mode);
  }
  return policy;
}

Duration pause_before(const RetryPolicy& policy, const CallError& error, int retry,
                      std::mt19937_64& random) {
  const bool throttled = error.kind == CallError::Kind::Throttled;
  const Duration base = throttled ? policy.throttled_base : policy.transient_base;
  const int doublings = std::clamp(retry, 0, 20);  // 2^20 is beyond every ceiling
  const Duration highest = std::min(policy.ceiling, base * (1 << doublings));
  const Duration own(std::uniform_int_distribution<Duration::rep>(0, highest.count())(random));
  const auto asked = number_of_text<int>(error.retry_after);
  return asked ? std::clamp(Duration(*asked), own, own + policy.longest_hint) : own;
}

namespace {

using wire::Repeatable;
using Kind = CallError::Kind;
using Steady = std::chrono::steady_clock;

CallError from_response(const io::HttpResponse& response) {
  CallError error = wire::parse_error(response.body, response.header("x-amzn-errortype"));
  error.kind = wire::classify(response.status, error.code);
  error.retry_after = response.header("x-amz-retry-after");
  error.status = response.status;
  return error;
}

// AWS may have done what was asked, and did not say.
bool may_be_done(const CallError& error) {
  return error.kind == Kind::Transient || error.kind == Kind::Cancelled ||
         error.kind == Kind::Unreadable;
}

// AWS answered, and its answer holds for the earlier attempts of the same call, too.
bool settles(const CallError& error) {
  return error.kind == Kind::Other || error.kind == Kind::NotFound || error.kind == Kind::DryRun;
}

bool worth_retrying(const CallError& error, Repeatable repeatable) {
  if (error.kind == Kind::NotSent || error.kind == Kind::Throttled) return true;
  return error.kind == Kind::Transient && repeatable != Repeatable::No;
}

// A refusal for lack of permission says what to allow, instead of AWS's half a kilobyte.
void explain(CallError& error, const wire::HttpCall& call) {
  const bool refused = error.code == "UnauthorizedOperation" || error.code == "AccessDenied" ||
                       error.code == "AccessDeniedException";
  if (refused)
    error.message = wire::missing_permission(call.service + ":" + call.action, error.message);
  error.action = call.action;
}

}  // namespace

AwsClient::AwsClient(io::HttpClient& http, AwsSettings settings)
    : http_(http),
      settings_(std::move(settings)),
      keys_(settings_.environment, settings_.clock, loop_, ". Give the instance a role."),
      awaited_(http.executor(), asio::steady_timer::time_point::max()),
      driver_(http.executor(), loop_.descriptor(), [this] { return turn(); }),
      random_(settings_.seed) {}

std::optional<io::Driver::Instant> AwsClient::turn() {
  loop_.turn(std::chrono::milliseconds(0));
  if (!keys_.are_awaited()) {
    if (!found_) found_ = keys_.get();
    awaited_.cancel();
  }
  if (!keys_.is_asking()) return std::nullopt;
  return loop_.next().value_or(io::Driver::Instant::max());
}

asio::awaitable<Result<wire::Credentials>> AwsClient::credentials() {
  if (!keys_.are_awaited()) found_ = keys_.get();
  if (keys_.is_asking()) driver_.begin();
  if (!found_) {
    boost::system::error_code woken;
    co_await awaited_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  if (found_) co_return *found_;
  co_return failure("the wait for credentials was given up");
}

asio::awaitable<Result<std::string, CallError>> AwsClient::send(wire::HttpCall call,
                                                                Duration deadline) {
  const auto until = Steady::now() + deadline;
  bool renewed = false;    // the credentials, or our idea of the time: once
  bool unsettled = false;  // an earlier attempt may have been carried out
  int retries = 0;
  CallTally& tally = tallies_[{call.service, call.action}];
  for (int number = 1;; ++number) {
    ++tally.requests;
    if (number > 1) ++tally.retries;
    const auto left = std::chrono::ceil<Duration>(until - Steady::now());
    auto pending = attempt(call, std::max(left, Duration{1}));
    Result<std::string, CallError> answer = co_await std::move(pending);
    if (answer) co_return answer;
    CallError& error = answer.error();
    error.attempts = number;
    unsettled = unsettled || (call.repeatable != Repeatable::Read && may_be_done(error));
    if (!renewed && renew(error)) {
      renewed = true;
      continue;
    }
    const Duration pause = pause_before(settings_.retry, error, retries, random_);
    const bool again = worth_retrying(error, call.repeatable) &&
                       ++retries < settings_.retry.attempts && Steady::now() + pause < until;
    if (!again) {
      ++tally.failures;
      if (unsettled && !settles(error)) error.kind = Kind::Unknown;
      explain(error, call);
      co_return answer;
    }
    co_await io::wait_for(pause);
  }
}

bool AwsClient::renew(const CallError& error) {
  if (error.status == 0) return false;
  const bool clock_was_wrong = std::exchange(clock_was_wrong_, false);
  // EC2 says RequestExpired for both: a clock that is behind, and temporary keys past their end.
  const bool keys_may_be_old =
      error.kind == Kind::ExpiredCredentials || error.code == "RequestExpired";
  if (keys_may_be_old) keys_.expire();
  return keys_may_be_old || clock_was_wrong;
}

asio::awaitable<Result<std::string, CallError>> AwsClient::attempt(const wire::HttpCall& call,
                                                                   Duration left) {
  const Result<wire::Credentials> keys = co_await credentials();
  if (!keys) {
    CallError error{.kind = Kind::NoCredentials, .message = keys.error().message};
    co_return tl::unexpected(std::move(error));
  }
  const Region& region = call.region.empty() ? settings_.region : call.region;
  io::HttpRequest request{
      .method = call.method,
      .url = endpoint(settings_.environment, call.service, region) + call.target,
      .headers = call.headers,
      .body = call.body,
      .fresh_connection = call.repeatable != Repeatable::Read};
  request.timeout =
      call.repeatable == Repeatable::No ? left : std::min(left, settings_.retry.longest_attempt);
  request.connect_timeout = std::min(request.connect_timeout, request.timeout);
  const auto skew = skew_;
  // With the time handed in: libcurl's own signer takes the machine's clock, which on a freshly
  // resumed instance may be wrong.
  wire::sign(request.headers, request.method, request.url, request.body, *keys,
             {call.service, region.str(), now()});
  Result<io::HttpResponse, CallError> response = co_await http_.send(std::move(request));
  if (!response) co_return tl::unexpected(std::move(response.error()));
  note_time(*response);
  if (response->status == 200) co_return std::move(response->body);
  CallError error = from_response(*response);
  // A wrong clock is not always called one: EC2 says AuthFailure, too.
  if (error.kind == Kind::Permission) learn_clock(*response, skew);
  co_return tl::unexpected(std::move(error));
}

// A Date is of whole seconds, and was on its way: who counts between two answers is not to see
// such steps.
void AwsClient::note_time(const io::HttpResponse& response) {
  constexpr std::chrono::seconds of_the_network{5};
  const auto date = wire::parse_http_date(response.header("date"));
  if (date && std::chrono::abs(*date - aws_time()) > of_the_network)
    ahead_ = *date - settings_.clock();
}

void AwsClient::learn_clock(const io::HttpResponse& response, std::chrono::seconds skew) {
  const auto date = wire::parse_http_date(response.header("date"));
  if (!date) return;
  const auto signed_at = settings_.clock() + skew;
  clock_was_wrong_ = std::chrono::abs(*date - signed_at) > settings_.retry.tolerated_skew;
  if (!clock_was_wrong_) return;
  skew_ = *date - settings_.clock();
  io::note(wire::event("clock-wrong"), spdlog::level::warn,
           "this machine's clock is {} min {} AWS's: requests are signed by AWS's from now on",
           std::chrono::abs(std::chrono::round<std::chrono::minutes>(skew_)).count(),
           skew_.count() > 0 ? "behind" : "ahead of");
}

}  // namespace spotter::act
