#include "agent/aws/imds_client.hpp"

#include <utility>

namespace spotter::sense {
namespace {

constexpr const char* token_lifetime_seconds = "21600";  // the longest there is
constexpr std::size_t longest_answer = 256U << 10;

ImdsClient::Answer interpret(Result<io::HttpResponse, CallError> result) {
  CallError error{.kind = CallError::Kind::Transient};
  if (!result) {
    error.message = "instance metadata: " + result.error().message;
    return tl::unexpected(std::move(error));
  }
  if (result->status == 200) return std::move(*result);
  if (result->status == 404) return std::nullopt;
  error.status = result->status;
  error.message = "instance metadata answers HTTP " + std::to_string(error.status);
  if (error.status == 403) {
    error.kind = CallError::Kind::Permission;
    error.message = "instance metadata is switched off for this instance (HTTP 403)";
  }
  return tl::unexpected(std::move(error));
}

template <class Parse>
auto read(const ImdsClient::Answer& answer, const char* what, Parse parse)
    -> Result<std::optional<typename decltype(parse(std::string()))::value_type>, CallError> {
  if (!answer) return tl::unexpected(answer.error());
  if (!*answer) return std::nullopt;
  auto value = parse((*answer)->body);
  if (value) return std::move(*value);
  return tl::unexpected(
      CallError{.kind = CallError::Kind::Unreadable,
                .message = "instance metadata, " + std::string(what) + ": " + value.error().message,
                .status = (*answer)->status});
}

// Without a Date the local clock has to do: a notice must not be lost for it.
wire::WallTime date_of(const io::HttpResponse& response) {
  if (const auto date = wire::parse_http_date(response.header("date"))) return *date;
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

SpotAction action_at(const io::HttpResponse& response, const wire::SpotNotice& notice) {
  return {.action = notice.action,
          .remaining = wire::remaining(notice.time, date_of(response)),
          .received_at = Time{response.received_at},
          .time = notice.time};
}

}  // namespace

ImdsClient::ImdsClient(io::HttpClient& http, ImdsSettings settings)
    : http_(http), settings_(std::move(settings)) {
  while (settings_.endpoint.ends_with('/')) settings_.endpoint.pop_back();
}

io::HttpRequest ImdsClient::request(const std::string& path) const {
  return {.url = settings_.endpoint + "/latest/" + path,
          .connect_timeout = settings_.connect_timeout,
          .timeout = settings_.timeout,
          .response_limit = longest_answer,
          .use_proxy = false};
}

asio::awaitable<Result<void, CallError>> ImdsClient::refresh_token() {
  io::HttpRequest put = request("api/token");
  put.method = "PUT";
  put.headers.emplace_back("X-aws-ec2-metadata-token-ttl-seconds", token_lifetime_seconds);
  put.response_limit = 4096;
  Result<io::HttpResponse, CallError> result = co_await http_.send(std::move(put));
  Answer answer = interpret(std::move(result));
  if (!answer) co_return tl::unexpected(std::move(answer.error()));
  if (*answer && wire::can_be_token((*answer)->body)) {
    token_ = std::move((*answer)->body);
    co_return Result<void, CallError>();
  }
  // No token is no answer to the question that it was wanted for, so a 404 here is no "absent".
  CallError error{.kind = CallError::Kind::Transient, .status = *answer ? 200 : 404};
  error.message =
      "instance metadata gives no session token (HTTP " + std::to_string(error.status) + ")";
  co_return tl::unexpected(std::move(error));
}

asio::awaitable<ImdsClient::Answer> ImdsClient::get(std::string path) {
  const bool token_was_old = !token_.empty();
  if (!token_was_old) {
    Result<void, CallError> fresh = co_await refresh_token();
    if (!fresh) co_return tl::unexpected(std::move(fresh.error()));
  }
  io::HttpRequest asked = request(path);
  asked.headers.emplace_back("X-aws-ec2-metadata-token", token_);
  Result<io::HttpResponse, CallError> result = co_await http_.send(std::move(asked));
  const bool refused = result && (result->status == 401 || result->status == 400);
  // A token that damage made on its way may be why there is no answer at all.
  if (!result || refused) token_.clear();
  if (refused && token_was_old)  // expired, or the service restarted: once more with a new one
    co_return co_await get(std::move(path));
  co_return interpret(std::move(result));
}

asio::awaitable<Result<std::optional<wire::Identity>, CallError>> ImdsClient::identity() {
  const Answer answer = co_await get("dynamic/instance-identity/document");
  co_return read(answer, "identity document", wire::parse_identity);
}

asio::awaitable<Result<std::optional<SpotAction>, CallError>> ImdsClient::spot_action() {
  const Answer answer = co_await get("meta-data/spot/instance-action");
  auto notice = read(answer, "spot/instance-action", wire::parse_spot_notice);
  if (!notice) co_return tl::unexpected(notice.error());
  if (!*notice) co_return std::optional<SpotAction>();
  co_return std::optional(action_at(**answer, **notice));
}

asio::awaitable<Result<std::optional<wire::WallTime>, CallError>> ImdsClient::rebalance() {
  const Answer answer = co_await get("meta-data/events/recommendations/rebalance");
  co_return read(answer, "rebalance", wire::parse_rebalance);
}

asio::awaitable<Result<std::optional<wire::LifecycleState>, CallError>>
ImdsClient::lifecycle_state() {
  const Answer answer = co_await get("meta-data/autoscaling/target-lifecycle-state");
  co_return read(answer, "lifecycle state", [](const std::string& body) {
    return Result<wire::LifecycleState>(wire::parse_lifecycle_state(body));
  });
}

}  // namespace spotter::sense
