// Calls to AWS by a command in the foreground, and what they need on this machine.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>

#include "agent/aws/aws_client.hpp"
#include "agent/aws/formats/aws_error.hpp"
#include "agent/aws/formats/batch.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/imds.hpp"
#include "agent/aws/formats/pages.hpp"
#include "agent/aws/formats/services.hpp"
#include "agent/aws/imds_client.hpp"

namespace spotter::command {

// AWS_EC2_METADATA_SERVICE_ENDPOINT, or the instance's own.
sense::ImdsSettings imds_settings(const act::Environment& environment);

// Retries as the environment says.
act::AwsSettings aws_settings(const act::Environment& environment, const Region& region);

// One call after the other, each waited for.
//
//   auto volumes = calls.ask_all(wire::DescribeVolumes{...});   // every page

// A failure that AWS had no part in.
inline tl::unexpected<CallError> failed(std::string message) {
  return tl::unexpected(CallError{.message = std::move(message)});
}

class AwsCalls : Pinned {
 public:
  // The instance that this machine is, as its metadata service says; none: it is no instance.
  static std::optional<wire::Identity> here();
  // The region: the environment's, else the instance's own. Fails without one.
  static Result<std::unique_ptr<AwsCalls>> open();
  // Or another one.
  static std::unique_ptr<AwsCalls> open(const Region& region);
  ~AwsCalls();

  const Region& region() const;
  // By AWS's clock, once it has answered: that of this machine may be wrong.
  wire::WallTime now() const;

  // The body of a 200; an error's message names the action. Throttling and AWS's own trouble were
  // waited out for a minute at most.
  Result<std::string, CallError> perform(const wire::BatchCall& call);
  Result<std::string, CallError> perform(const wire::EfsCall& call);
  Result<std::string, CallError> perform(const wire::Query& query);
  // The value of an SSM parameter.
  Result<std::string, CallError> parameter(const std::string& name);
  // The on-demand price of the type in that region, in dollars an hour.
  Result<double, CallError> on_demand_price(const InstanceType& type, const Region& region);
  // The account's value of EC2's quota of this code in this region (aws/formats/services.hpp).
  Result<double, CallError> ec2_quota(const std::string& code);

  // The same, decoded.
  template <class Call, class T, class... Wanted>
  Result<T, CallError> ask(const Call& call,
                           Result<T> (*decode)(std::string_view, const Wanted&...),
                           const Wanted&... wanted) {
    return decoded(call, perform(call),
                   [&](std::string_view body) { return decode(body, wanted...); });
  }
  template <class Request>
  Result<typename Request::Answer, CallError> ask(const Request& request) {
    return ask(encode(request), wire::decode<Request>);  // of whichever header of wire
  }
  // All pages of a Describe as one list.
  template <class Request>
  Result<decltype(Request::Answer::items), CallError> ask_all(Request request) {
    using Item = typename decltype(Request::Answer::items)::value_type;
    return all_pages<Item>(encode(request).action, [&](const std::string& token) {
      request.next_token = token;
      return ask(request);
    });
  }
  // The same of any listing: `page` asks for the page of a token.
  template <class Item, class AskPage>
  Result<std::vector<Item>, CallError> all_pages(const std::string& action, AskPage page) {
    std::vector<Item> all;
    const auto take = [&all](wire::Page<Item> it) {
      const std::size_t items = it.items.size();
      std::ranges::move(it.items, std::back_inserter(all));
      return wire::PageSeen{.items = items, .next_token = std::move(it.next_token)};
    };
    const auto endless = [&action](const Error& error) {
      return CallError{.message = action + ": " + error.message};
    };
    auto done = wire::each_page({}, page, take, endless);
    if (!done) return tl::unexpected(std::move(done.error()));
    return all;
  }

 private:
  struct Parts;
  explicit AwsCalls(std::unique_ptr<Parts> parts);
  template <class T, class Call>
  Result<T, CallError> wait_for(const Call& call, const std::string& action);

  template <class Call, class Decode>
  static auto decoded(const Call& call, const Result<std::string, CallError>& body, Decode decode)
      -> Result<typename decltype(decode(std::string_view()))::value_type, CallError> {
    if (!body) return tl::unexpected(body.error());
    auto value = decode(*body);
    if (value) return std::move(*value);
    return tl::unexpected(
        wire::unreadable({call.action + ": " + value.error().message}, call.repeatable));
  }

  std::unique_ptr<Parts> parts_;
};

}  // namespace spotter::command
