#include "agent/aws/imds_client.hpp"

#include <utility>

namespace spotter::sense {
namespace {

constexpr const char* token_lifetime_seconds = "21600";  // the longest there is
constexpr std::size_t longest_answer = 256U << 10;

ImdsAnswer interpret(Result<io::HttpResponse, CallError> result) {
  ImdsAnswer answer;
  if (!result) {
    answer.problem = "instance metadata: " + result.error().message;
    return answer;
  }
  answer.status = result->status;
  answer.received_at = Time{result->received_at};
  const auto date = wire::parse_http_date(result->headers["date"]);
  if (date) answer.date = *date;
  if (answer.status == 200) {
    answer.kind = ImdsAnswer::Kind::Found;
    answer.body = std::move(result->body);
  } else if (answer.status == 404) {
    answer.kind = ImdsAnswer::Kind::Absent;
  } else if (answer.status == 403) {
    answer.kind = ImdsAnswer::Kind::Disabled;
    answer.problem = "instance metadata is switched off for this instance (HTTP 403)";
  } else {
    answer.problem = "instance metadata answers HTTP " + std::to_string(answer.status);
  }
  return answer;
}

// Found -> parsed; Absent -> nothing; the others, and what does not parse -> an error.
template <class Parse>
auto read(const ImdsAnswer& answer, const char* what, Parse parse)
    -> Result<std::optional<typename decltype(parse(answer.body))::value_type>, CallError> {
  using Value = typename decltype(parse(answer.body))::value_type;
  using Kind = ImdsAnswer::Kind;
  const auto failed = [&answer](CallError::Kind kind, std::string message) {
    CallError error{.kind = kind, .message = std::move(message), .status = answer.status};
    return tl::unexpected(std::move(error));
  };
  if (answer.kind == Kind::Absent) return std::optional<Value>();
  if (answer.kind == Kind::Disabled) return failed(CallError::Kind::Permission, answer.problem);
  if (answer.kind == Kind::Unavailable) return failed(CallError::Kind::Transient, answer.problem);
  auto value = parse(answer.body);
  if (!value) {
    return failed(CallError::Kind::Unreadable,
                  "instance metadata, " + std::string(what) + ": " + value.error().message);
  }
  return std::optional<Value>(std::move(*value));
}

// Without a Date the local clock has to do: a notice must not be lost for it.
wire::WallTime date_of(const ImdsAnswer& answer) {
  if (answer.date) return *answer.date;
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

SpotAction action_at(const ImdsAnswer& answer, const wire::SpotNotice& notice) {
  return {.action = notice.action,
          .remaining = wire::remaining(notice.time, date_of(answer)),
          .received_at = answer.received_at,
          .time = notice.time};
}

}  // namespace

ImdsClient::ImdsClient(io::HttpClient& http, ImdsSettings settings)
    : http_(http), settings_(std::move(settings)) {
  while (settings_.endpoint.ends_with('/')) settings_.endpoint.pop_back();
}

asio::awaitable<Result<io::HttpResponse, CallError>> ImdsClient::fetch(std::string path) {
  io::HttpRequest request;
  request.url = settings_.endpoint + "/latest/" + path;
  request.headers.emplace_back("X-aws-ec2-metadata-token", token_);
  request.connect_timeout = settings_.connect_timeout;
  request.timeout = settings_.timeout;
  request.response_limit = longest_answer;
  request.use_proxy = false;
  co_return co_await http_.send(std::move(request));
}

asio::awaitable<std::optional<ImdsAnswer>> ImdsClient::refresh_token() {
  io::HttpRequest request;
  request.method = "PUT";
  request.url = settings_.endpoint + "/latest/api/token";
  request.headers.emplace_back("X-aws-ec2-metadata-token-ttl-seconds", token_lifetime_seconds);
  request.connect_timeout = settings_.connect_timeout;
  request.timeout = settings_.timeout;
  request.response_limit = 4096;
  request.use_proxy = false;
  Result<io::HttpResponse, CallError> result = co_await http_.send(std::move(request));
  ImdsAnswer answer = interpret(std::move(result));
  if (answer.kind == ImdsAnswer::Kind::Found && wire::can_be_token(answer.body)) {
    token_ = std::move(answer.body);
    co_return std::nullopt;
  }
  // No token is no answer to the question that it was wanted for, so a 404 here is no "absent".
  if (answer.kind != ImdsAnswer::Kind::Disabled) answer.kind = ImdsAnswer::Kind::Unavailable;
  if (answer.problem.empty()) {
    answer.problem =
        "instance metadata gives no session token (HTTP " + std::to_string(answer.status) + ")";
  }
  co_return answer;
}

asio::awaitable<ImdsAnswer> ImdsClient::get(std::string path) {
  const bool token_was_old = !token_.empty();
  if (!token_was_old) {
    std::optional<ImdsAnswer> failed = co_await refresh_token();
    if (failed) co_return std::move(*failed);
  }
  Result<io::HttpResponse, CallError> result = co_await fetch(path);
  const bool refused = result && (result->status == 401 || result->status == 400);
  // A token that damage made on its way may be why there is no answer at all.
  if (!result || refused) token_.clear();
  if (refused) {
    if (token_was_old) {  // expired, or the service restarted: once more with a new one
      co_return co_await get(std::move(path));
    }
  }
  co_return interpret(std::move(result));
}

asio::awaitable<Result<std::optional<wire::Identity>, CallError>> ImdsClient::identity() {
  ImdsAnswer answer = co_await get("dynamic/instance-identity/document");
  co_return read(answer, "identity document", wire::parse_identity);
}

asio::awaitable<Result<std::optional<SpotAction>, CallError>> ImdsClient::spot_action() {
  ImdsAnswer answer = co_await get("meta-data/spot/instance-action");
  auto notice = read(answer, "spot/instance-action", wire::parse_spot_notice);
  if (!notice) co_return tl::unexpected(notice.error());
  if (!*notice) co_return std::optional<SpotAction>();
  co_return std::optional(action_at(answer, **notice));
}

asio::awaitable<Result<std::optional<wire::WallTime>, CallError>> ImdsClient::rebalance() {
  ImdsAnswer answer = co_await get("meta-data/events/recommendations/rebalance");
  co_return read(answer, "rebalance", wire::parse_rebalance);
}

asio::awaitable<Result<std::optional<wire::LifecycleState>, CallError>>
ImdsClient::lifecycle_state() {
  ImdsAnswer answer = co_await get("meta-data/autoscaling/target-lifecycle-state");
  co_return read(answer, "lifecycle state", [](const std::string& body) {
    return Result<wire::LifecycleState>(wire::parse_lifecycle_state(body));
  });
}

}  // namespace spotter::sense
