// AWS for a command in the foreground: one call after the other, each waited for. The credentials
// are the SDKs' chain, the instance's role at its end.
//
//   auto volumes = calls.ask_all(wire::DescribeVolumes{...});   // every page
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "agent/aws/formats/batch.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/imds.hpp"
#include "agent/aws/formats/pages.hpp"

namespace spotter::command {

struct AwsFailure {
  std::string code;        // ClientException; empty without an answer
  std::string message;     // for a person, with the action
  bool unsettled = false;  // it may have been carried out
  bool permission = false;
};
template <class T>
using AwsResult = tl::expected<T, AwsFailure>;

// What AWS had no part in.
inline tl::unexpected<AwsFailure> failed(std::string message) {
  return tl::unexpected(AwsFailure{"", std::move(message)});
}

class AwsCalls {
 public:
  // The instance that this machine is, as its metadata service says; none: it is no instance.
  static std::optional<wire::Identity> here();
  // The region: the environment's, else the instance's own. Fails without one.
  static Result<std::unique_ptr<AwsCalls>> open();
  // Or another one.
  static std::unique_ptr<AwsCalls> open(const Region& region);
  ~AwsCalls();
  AwsCalls(const AwsCalls&) = delete;
  AwsCalls& operator=(const AwsCalls&) = delete;

  const Region& region() const;

  // The body of a 200; throttling and AWS's own trouble were waited out for a minute at most.
  AwsResult<std::string> perform(const wire::BatchCall& call);
  AwsResult<std::string> perform(const wire::Query& query);
  // The value of an SSM parameter.
  AwsResult<std::string> parameter(const std::string& name);
  // What an instance of the type costs on demand in that region, in dollars an hour. For calls that
  // were opened for the price list's own region.
  AwsResult<double> on_demand_price(const InstanceType& type, const Region& region);
  // What the account has in this region of EC2's quota of this code (aws/formats/quotas.hpp).
  AwsResult<double> ec2_quota(const std::string& code);

  // The same, decoded.
  template <class T, class... Wanted>
  AwsResult<T> ask(const wire::BatchCall& call,
                   Result<T> (*decode)(std::string_view, const Wanted&...),
                   const Wanted&... wanted) {
    return decoded(call, perform(call),
                   [&](std::string_view body) { return decode(body, wanted...); });
  }
  template <class T>
  AwsResult<T> ask(const wire::Query& query, Result<T> (*decode)(std::string_view)) {
    return decoded(query, perform(query), decode);
  }
  template <class Request>
  AwsResult<typename Request::Answer> ask(const Request& request) {
    return ask(encode(request), wire::decode<Request>);  // of whichever header of wire
  }
  // All pages of a Describe as one list.
  template <class Request>
  AwsResult<decltype(Request::Answer::items)> ask_all(Request request) {
    decltype(Request::Answer::items) all;
    wire::Pages pages;
    do {
      auto page = ask(request);
      if (!page) return tl::unexpected(page.error());
      if (const auto more = pages.add(page->items.size(), page->next_token); !more)
        return tl::unexpected(
            AwsFailure{"", encode(request).action + ": " + more.error().message, false});
      for (auto& item : page->items) all.push_back(std::move(item));
      request.next_token = std::move(page->next_token);
    } while (!request.next_token.empty());
    return all;
  }

 private:
  struct Parts;
  explicit AwsCalls(std::unique_ptr<Parts> parts);
  template <class T, class Call>
  AwsResult<T> wait_for(const Call& call, const std::string& action);

  template <class Call, class Decode>
  static auto decoded(const Call& call, const AwsResult<std::string>& body, Decode decode)
      -> AwsResult<typename decltype(decode(std::string_view()))::value_type> {
    if (!body) return tl::unexpected(body.error());
    auto value = decode(*body);
    if (value) return std::move(*value);
    return tl::unexpected(AwsFailure{"", call.action + ": " + value.error().message,
                                     call.repeatable != wire::Repeatable::Read});
  }

  std::unique_ptr<Parts> parts_;
};

}  // namespace spotter::command
