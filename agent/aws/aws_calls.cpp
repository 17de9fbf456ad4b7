#include "agent/aws/aws_calls.hpp"

#include <random>

#include "agent/aws/settings/settings.hpp"
#include "agent/io/asio.hpp"

namespace spotter::command {

act::AwsSettings aws_settings(const act::Environment& environment, const Region& region) {
  return {.region = region,
          .environment = environment,
          .seed = std::random_device()(),
          .retry = act::retry_policy(environment)};
}

sense::ImdsSettings imds_settings(const act::Environment& environment) {
  sense::ImdsSettings settings;
  const std::string endpoint = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (!endpoint.empty()) settings.endpoint = endpoint;
  return settings;
}

namespace {

constexpr Duration limit{60'000};

std::string describe(const CallError& error, const std::string& action) {
  std::string text = action + ": " + error.message;
  if (!error.code.empty()) text += " (" + error.code + ")";
  if (error.unsettled()) text += "; it may have been carried out all the same";
  return text;
}

// None: it never ended.
template <class T>
std::optional<T> wait_for(asio::io_context& context, asio::awaitable<T> asking) {
  std::optional<T> answer;
  auto work = [](asio::awaitable<T> begun, std::optional<T>& to) -> asio::awaitable<void> {
    to = co_await std::move(begun);
  };
  auto running = work(std::move(asking), answer);
  asio::co_spawn(context, std::move(running), asio::detached);
  context.restart();
  while (!answer && context.run_one() > 0) {
  }
  return answer;
}

}  // namespace

Result<std::unique_ptr<AwsCalls>> AwsCalls::open() {
  const auto environment = act::Environment::of_this_process();
  Region region = act::configured_region(environment);
  if (region.empty())
    if (const auto instance = here()) region = instance->region;
  if (region.empty())
    return failure("no region is known: set AWS_REGION, or `region` in ~/.aws/config");
  return open(region);
}

std::unique_ptr<AwsCalls> AwsCalls::open(const Region& region) {
  return std::unique_ptr<AwsCalls>(
      new AwsCalls(aws_settings(act::Environment::of_this_process(), region)));
}

std::optional<wire::Identity> AwsCalls::here() {
  const auto environment = act::Environment::of_this_process();
  if (act::is_set(environment, "AWS_EC2_METADATA_DISABLED")) return std::nullopt;
  asio::io_context context{1};
  io::HttpClient http(context);
  sense::ImdsClient imds(http, imds_settings(environment));
  const auto answer = wait_for(context, imds.identity());
  if (!answer || !*answer) return std::nullopt;
  return **answer;
}

Result<std::string, CallError> AwsCalls::send(const wire::HttpCall& call) {
  auto answer = wait_for(context_, client_.send(call, limit));
  if (!answer)
    return tl::unexpected(
        CallError{.kind = CallError::Kind::Unknown, .message = name_of(call) + ": no answer"});
  if (!*answer) answer->error().message = describe(answer->error(), name_of(call));
  return std::move(*answer);
}

}  // namespace spotter::command
