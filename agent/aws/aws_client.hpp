// Calls to AWS: signed, retried as the SDKs' standard mode does, within a deadline.
//
//   auto call = client.call(wire::DescribeVolumes{...}, 30s);   // named first: see io/asio.hpp
//   Result<wire::Page<wire::Volume>, CallError> volumes = co_await std::move(call);
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "agent/aws/credentials.hpp"
#include "agent/aws/formats/aws_error.hpp"
#include "agent/aws/formats/batch.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/efs.hpp"
#include "agent/aws/formats/pages.hpp"
#include "agent/aws/retry.hpp"
#include "agent/aws/settings/endpoints.hpp"
#include "agent/base/call_error.hpp"
#include "agent/base/result.hpp"
#include "agent/io/http.hpp"

namespace spotter::act {

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
  Region region = {};  // that the signature names; empty: the client's
};

// Threading: the io_context's one thread. Both references must outlive the client and its calls.
class AwsClient {
 public:
  AwsClient(io::HttpClient& http, CredentialChain& credentials, AwsSettings settings);

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
  asio::awaitable<Result<std::string, CallError>> query(wire::Query query, Duration deadline);

  // SSM GetParameter WithDecryption: the value.
  asio::awaitable<Result<std::string, CallError>> ssm_parameter(std::string name,
                                                                Duration deadline);
  // What Service Quotas has for EC2's quota of this code.
  asio::awaitable<Result<double, CallError>> ec2_quota(std::string code, Duration deadline);
  // What an instance costs on demand in that region, in dollars an hour (aws/formats/prices.hpp).
  asio::awaitable<Result<double, CallError>> on_demand_price(InstanceType type, Region region,
                                                             Duration deadline);

  // The JSON of a 200.
  asio::awaitable<Result<std::string, CallError>> batch(wire::BatchCall call, Duration deadline);
  asio::awaitable<Result<std::string, CallError>> efs(wire::EfsCall call, Duration deadline);

  // Now by AWS's clock, as its newest answer says it; by ours before the first one.
  wire::WallTime aws_time() const { return settings_.clock() + ahead_; }

  const Region& region() const { return settings_.region; }
  const CallTallies& tallies() const { return tallies_; }

 private:
  // The JSON 1.1 of an action that only reads. `region`: empty: the client's.
  asio::awaitable<Result<std::string, CallError>> read_json(std::string service, std::string target,
                                                            std::string body, Duration deadline,
                                                            Region region = {});
  asio::awaitable<Result<std::string, CallError>> perform(SignedCall call, Duration deadline);
  asio::awaitable<Result<std::string, CallError>> attempt(const SignedCall& call, Duration left);
  bool renew(const CallError& error);  // true: worth an immediate second attempt
  void note_time(const io::HttpResponse& response);
  void learn_clock(const io::HttpResponse& response);
  wire::WallTime now() const;

  io::HttpClient& http_;
  CredentialChain& credentials_;
  AwsSettings settings_;
  Backoff backoff_;
  RetryBucket bucket_;
  CallTallies tallies_;
  std::chrono::seconds ahead_{0};  // AWS's clock, of ours
  std::chrono::seconds skew_{0};   // the same for signatures: only since one was refused
  bool clock_was_wrong_ = false;   // learnt since the last renew()
};

template <class Request>
asio::awaitable<Result<typename Request::Answer, CallError>> AwsClient::call(Request request,
                                                                             Duration deadline) {
  wire::Query encoded = encode(request);  // found beside the request
  const wire::Repeatable repeatable = encoded.repeatable;
  auto pending = query(std::move(encoded), deadline);
  Result<std::string, CallError> body = co_await std::move(pending);
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
    auto pending = call(request, deadline);
    auto answer = co_await std::move(pending);
    if (!answer) co_return tl::unexpected(std::move(answer.error()));
    if (const auto more = pages.add(answer->items.size(), answer->next_token); !more)
      co_return tl::unexpected(wire::unreadable(more.error(), wire::Repeatable::Read));
    for (auto& item : answer->items) all.items.push_back(std::move(item));
    request.next_token = std::move(answer->next_token);
  } while (!request.next_token.empty());
  co_return all;
}

}  // namespace spotter::act
