// A client of AWS's APIs in an io_context, and its retries.
//
// Retries are those of the AWS SDKs' standard mode in its version of 2026: of transient errors
// soon, of throttling after a second. They take from no quota: each call's deadline bounds them.
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
// The limits of a single HTTP call are here and not in decide/policy.hpp: the core knows of a call
// only how long it may take in all (Policy::ec2_call).
#pragma once

#include <random>

#include "agent/aws/formats/aws_error.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/imds.hpp"
#include "agent/aws/formats/pages.hpp"
#include "agent/aws/formats/services.hpp"
#include "agent/aws/s3/keys.hpp"
#include "agent/aws/settings/credentials.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/io/driver.hpp"
#include "agent/io/http.hpp"

namespace spotter::act {

struct RetryPolicy {
  int attempts = 3;               // AWS_MAX_ATTEMPTS, or max_attempts of the profile
  Duration transient_base{50};    // the service's own trouble is mostly one machine's: try another
  Duration throttled_base{1000};  // EC2's buckets refill by the second
  Duration ceiling{20'000};
  // The most that x-amz-retry-after, a service's own wish, may add to our own delay.
  Duration longest_hint{5'000};
  // One attempt of a call that may be repeated: leaves time for another within 30 s.
  Duration longest_attempt{12'000};
  std::chrono::seconds tolerated_skew = act::tolerated_skew;
};

// Reads AWS_MAX_ATTEMPTS and AWS_RETRY_MODE, else max_attempts and retry_mode of the profile in
// ~/.aws/config. A count that is not a number above 0 is ignored. A mode other than standard is
// logged, and the standard one is used.
RetryPolicy retry_policy(const Environment& environment);

// Before a call is sent again, with `retry` counted from 0: full jitter, which is uniform in
// [0, min(ceiling, base * 2^retry)], and what x-amz-retry-after (milliseconds) asks for within
// reason.
Duration pause_before(const RetryPolicy& policy, const CallError& error, int retry,
                      std::mt19937_64& random);

// Calls to AWS: signed, retried as the SDKs' standard mode does, but for its quota, within a
// deadline.
//
//   auto call = client.call(wire::DescribeVolumes{...}, 30s);   // named first: see io/asio.hpp
//   Result<wire::Page<wire::Volume>, CallError> volumes = co_await std::move(call);

struct AwsSettings {
  Region region;
  Environment environment;
  std::uint64_t seed = 0;  // of the jitter
  RetryPolicy retry;
  WallClock clock = system_time;
};

// Counts of one action's requests; CallTallies has them by service and action ("ec2",
// "AttachVolume").
struct CallTally {
  std::uint64_t requests = 0;  // retries among them
  std::uint64_t retries = 0;
  std::uint64_t failures = 0;  // calls that came to nothing in the end
};
using CallTallies = std::map<std::pair<std::string, std::string>, CallTally>;

// Threading: the io_context's one thread. Must outlive its calls, and `http` outlives both.
class AwsClient {
 public:
  AwsClient(io::HttpClient& http, AwsSettings settings);

  // Those that calls are signed with: the chain of settings/credentials.hpp, cached. Fails when no
  // source has any, saying which were asked.
  asio::awaitable<Result<wire::Credentials>> credentials();

  // One page. `deadline` bounds the whole call, retries and waiting included.
  template <class Request>
  asio::awaitable<Result<typename Request::Answer, CallError>> call(Request request,
                                                                    Duration deadline);

  // All pages as one; `deadline` bounds each page's call. Fails where a listing has no end
  // (aws/formats/pages.hpp).
  template <class Request>
  asio::awaitable<Result<typename Request::Answer, CallError>> call_all(Request request,
                                                                        Duration deadline);

  // The body of a 200.
  asio::awaitable<Result<std::string, CallError>> send(wire::HttpCall call, Duration deadline);

  // Now by AWS's clock, as its newest answer says it; by ours before the first one.
  wire::WallTime aws_time() const { return settings_.clock() + ahead_; }
  std::chrono::seconds aws_is_ahead() const { return ahead_; }

  const Region& region() const { return settings_.region; }
  const CallTallies& tallies() const { return tallies_; }

 private:
  asio::awaitable<Result<std::string, CallError>> attempt(const wire::HttpCall& call,
                                                          Duration left);
  bool renew(const CallError& error);  // true: worth an immediate second attempt
  void note_time(const io::HttpResponse& response);
  void learn_clock(const io::HttpResponse& response, std::chrono::seconds skew);
  wire::WallTime now() const { return settings_.clock() + skew_; }

  std::optional<io::Driver::Instant> turn();

  io::HttpClient& http_;
  AwsSettings settings_;
  curl::Loop loop_{1};
  s3::Keys keys_;
  std::optional<Result<wire::Credentials>> found_;  // none: they are awaited
  asio::steady_timer awaited_;  // never expires: its cancellation wakes who waits for them
  io::Driver driver_;
  std::mt19937_64 random_;
  CallTallies tallies_;
  std::chrono::seconds ahead_{0};  // AWS's clock, of ours
  std::chrono::seconds skew_{0};   // the same for signatures: only since one was refused
  bool clock_was_wrong_ = false;   // learnt since the last renew()
};

template <class Request>
asio::awaitable<Result<typename Request::Answer, CallError>> AwsClient::call(Request request,
                                                                             Duration deadline) {
  wire::HttpCall sent = as_http(encode(request));  // found beside the request
  const wire::Repeatable repeatable = sent.repeatable;
  Result<std::string, CallError> body = co_await send(std::move(sent), deadline);
  if (!body) co_return tl::unexpected(std::move(body.error()));
  auto answer = wire::decode<Request>(*body);
  if (!answer) co_return tl::unexpected(wire::unreadable(answer.error(), repeatable));
  co_return std::move(*answer);
}

template <class Request>
asio::awaitable<Result<typename Request::Answer, CallError>> AwsClient::call_all(
    Request request, Duration deadline) {
  typename Request::Answer all;
  wire::Pages pages;
  do {
    auto answer = co_await call(request, deadline);
    if (!answer) co_return tl::unexpected(std::move(answer.error()));
    if (const auto more = pages.add(answer->items.size(), answer->next_token); !more)
      co_return tl::unexpected(wire::unreadable(more.error(), wire::Repeatable::Read));
    for (auto& item : answer->items) all.items.push_back(std::move(item));
    request.next_token = std::move(answer->next_token);
  } while (!request.next_token.empty());
  co_return all;
}

}  // namespace spotter::act
