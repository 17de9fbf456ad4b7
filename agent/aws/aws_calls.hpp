// Calls to AWS by a command in the foreground, and what they need on this machine.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>

#include "agent/aws/aws_client.hpp"
#include "agent/aws/formats/aws_error.hpp"
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

  const Region& region() const { return client_.region(); }
  // By AWS's clock, once it has answered: that of this machine may be wrong.
  wire::WallTime now() const { return client_.aws_time(); }

  // The body of a 200; an error's message names the action. Throttling and AWS's own trouble were
  // waited out for a minute at most.
  template <class Call>
  Result<std::string, CallError> perform(const Call& call) {
    return send(as_http(call));
  }

  // The same, decoded.
  template <class Call, class T, class... Wanted>
  Result<T, CallError> ask(const Call& call,
                           Result<T> (*decode)(std::string_view, const Wanted&...),
                           const Wanted&... wanted) {
    const wire::HttpCall sent = as_http(call);
    const std::string body = TRY(send(sent));
    auto value = decode(body, wanted...);
    if (value) return std::move(*value);
    return tl::unexpected(
        wire::unreadable({name_of(sent) + ": " + value.error().message}, sent.repeatable));
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
    wire::Pages pages;
    std::string token;
    do {
      wire::Page<Item> it = TRY(page(token));
      if (const auto more = pages.add(it.items.size(), it.next_token); !more)
        return failed(action + ": " + more.error().message);
      std::ranges::move(it.items, std::back_inserter(all));
      token = std::move(it.next_token);
    } while (!token.empty());
    return all;
  }

 private:
  explicit AwsCalls(act::AwsSettings settings) : client_(http_, std::move(settings)) {}
  Result<std::string, CallError> send(const wire::HttpCall& call);
  static std::string name_of(const wire::HttpCall& call) {
    return call.action + (call.subject.empty() ? "" : " " + call.subject);
  }

  asio::io_context context_{1};
  io::HttpClient http_{context_};
  act::AwsClient client_;
};

}  // namespace spotter::command
