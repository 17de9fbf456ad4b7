// Calls to AWS: signed, retried as the SDKs' standard mode does, within a deadline.
//
//   auto call = client.call(wire::DescribeVolumes{...}, 30s);   // named first: see io/asio.hpp
//   CallResult<wire::Page<wire::Volume>> volumes = co_await std::move(call);
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "agent/aws/credentials.hpp"
#include "agent/aws/formats/aws_error.hpp"
#include "agent/aws/formats/batch.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/pages.hpp"
#include "agent/aws/retry.hpp"
#include "agent/aws/settings/endpoints.hpp"
#include "agent/io/http.hpp"

namespace spotter::act {

struct CallError {
  enum class Kind {
    NotSent,             // nothing reached AWS before the deadline
    Throttled,           // to the end of the attempts; nothing was changed
    Transient,           // AWS's own trouble or a lost answer, of a call that changes nothing
    Unknown,             // a mutating call whose answer was lost: it may have been carried out
    NoCredentials,       // no source has any
    ExpiredCredentials,  // and fresh ones did not help
    NotFound,
    Permission,
    DryRun,      // it would have succeeded
    Unreadable,  // a read's answer that is not what the API documents
    Cancelled,   // by the caller, of a call that changes nothing or was not sent yet
    Other,       // refused: `code` says why
  };
  Kind kind = Kind::Other;
  std::string code;  // AWS's, e.g. IncorrectState; empty when there was no answer
  std::string message;
  std::string request_id;
  std::string retry_after;  // the header x-amz-retry-after, as it came
  std::string action;       // what was asked for: DescribeVolumes
  int status = 0;           // HTTP; 0: no answer
  int attempts = 0;

  bool unsettled() const { return kind == Kind::Unknown; }
};

template <class T>
using CallResult = tl::expected<T, CallError>;

struct AwsSettings {
  Region region;
  Environment environment;
  std::uint64_t seed = 0;  // of the jitter
  RetryPolicy retry;
  CredentialChain::WallClock clock;  // empty: the system's
};

// What was sent, by service and action ("ec2", "AttachVolume").
struct CallTally {
  std::uint64_t requests = 0;  // retries among them
  std::uint64_t retries = 0;
  std::uint64_t failures = 0;  // calls that came to nothing in the end
};
using CallTallies = std::map<std::pair<std::string, std::string>, CallTally>;

// One call that is signed and sent as it is; query(), batch() and ssm_parameter() make these.
struct SignedCall {
  std::string service;
  std::string action;
  io::HttpRequest request;  // unsigned
  wire::Repeatable repeatable = wire::Repeatable::No;
};

// Threading: the io_context's one thread. Both references must outlive the client and its calls.
class AwsClient {
 public:
  AwsClient(io::HttpClient& http, CredentialChain& credentials, AwsSettings settings);

  // One page. `deadline` bounds the whole call, retries and waiting included.
  template <class Request>
  asio::awaitable<CallResult<typename Request::Answer>> call(Request request, Duration deadline);

  // All pages as one; `deadline` bounds each page's call. Fails where a listing has no end
  // (aws/formats/pages.hpp).
  template <class Request>
  asio::awaitable<CallResult<typename Request::Answer>> call_all(Request request,
                                                                 Duration deadline);

  // The body of a 200.
  asio::awaitable<CallResult<std::string>> query(wire::Query query, Duration deadline);

  // SSM GetParameter WithDecryption: the value.
  asio::awaitable<CallResult<std::string>> ssm_parameter(std::string name, Duration deadline);
  // What Service Quotas has for EC2's quota of this code.
  asio::awaitable<CallResult<double>> ec2_quota(std::string code, Duration deadline);
  // What an instance costs on demand in that region, in dollars an hour. The client's own region is
  // the price list's (aws/formats/prices.hpp).
  asio::awaitable<CallResult<double>> on_demand_price(InstanceType type, Region region,
                                                      Duration deadline);

  // The JSON of a 200.
  asio::awaitable<CallResult<std::string>> batch(wire::BatchCall call, Duration deadline);

  const Region& region() const { return settings_.region; }
  const CallTallies& tallies() const { return tallies_; }

 private:
  // The JSON 1.1 of an action that only reads.
  asio::awaitable<CallResult<std::string>> read_json(std::string service, std::string target,
                                                     std::string body, Duration deadline);
  asio::awaitable<CallResult<std::string>> perform(SignedCall call, Duration deadline);
  asio::awaitable<CallResult<std::string>> attempt(const SignedCall& call, Duration left);
  bool renew(const CallError& error);  // true: worth an immediate second attempt
  void learn_clock(const io::HttpResponse& response);
  wire::WallTime now() const;

  io::HttpClient& http_;
  CredentialChain& credentials_;
  AwsSettings settings_;
  Backoff backoff_;
  RetryBucket bucket_;
  CallTallies tallies_;
  std::chrono::seconds skew_{0};  // AWS's clock minus ours
  bool clock_was_wrong_ = false;  // learnt since the last renew()
};

CallError unreadable(const Error& error, wire::Repeatable repeatable);

template <class Request>
asio::awaitable<CallResult<typename Request::Answer>> AwsClient::call(Request request,
                                                                      Duration deadline) {
  wire::Query encoded = encode(request);  // found beside the request
  const wire::Repeatable repeatable = encoded.repeatable;
  auto pending = query(std::move(encoded), deadline);
  CallResult<std::string> body = co_await std::move(pending);
  if (!body) co_return tl::unexpected(std::move(body.error()));
  auto answer = wire::decode<Request>(*body);
  if (!answer) co_return tl::unexpected(unreadable(answer.error(), repeatable));
  co_return std::move(*answer);
}

template <class Request>
asio::awaitable<CallResult<typename Request::Answer>> AwsClient::call_all(Request request,
                                                                          Duration deadline) {
  typename Request::Answer all;
  wire::Pages pages;
  do {
    auto pending = call(request, deadline);
    auto answer = co_await std::move(pending);
    if (!answer) co_return tl::unexpected(std::move(answer.error()));
    if (const auto more = pages.add(answer->items.size(), answer->next_token); !more)
      co_return tl::unexpected(unreadable(more.error(), wire::Repeatable::Read));
    for (auto& item : answer->items) all.items.push_back(std::move(item));
    request.next_token = std::move(answer->next_token);
  } while (!request.next_token.empty());
  co_return all;
}

}  // namespace spotter::act
