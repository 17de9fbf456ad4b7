#include "agent/command/batch_calls.hpp"

#include <optional>
#include <random>

#include "agent/act/aws/aws_client.hpp"
#include "agent/act/aws/endpoints.hpp"
#include "agent/io/asio.hpp"
#include "agent/sense/imds_client.hpp"

namespace spotter::command {
namespace {

constexpr Duration limit{60'000};

act::AwsSettings settings_of(const act::Environment& environment) {
  return {.region = act::configured_region(environment),
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

std::string describe(const act::CallError& error, const std::string& action) {
  std::string text = action + ": " + error.message;
  if (!error.code.empty()) text += " (" + error.code + ")";
  if (error.unsettled()) text += "; it may have been carried out all the same";
  return text;
}

}  // namespace

struct BatchCalls::Parts {
  explicit Parts(act::Environment given)
      : environment(std::move(given)),
        http(context),
        imds(http, imds_settings(environment)),
        credentials(http, environment, [this] { return role(); }),
        client(http, credentials, settings_of(environment)) {}

  asio::awaitable<Result<std::optional<wire::Credentials>>> role() {
    auto asking = imds.role_credentials();
    auto answer = co_await std::move(asking);
    if (!answer) co_return failure(answer.error().message);
    co_return std::move(*answer);
  }

  act::Environment environment;
  asio::io_context context{1};
  io::HttpClient http;
  sense::ImdsClient imds;
  act::CredentialChain credentials;
  act::AwsClient client;
};

BatchCalls::BatchCalls(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
BatchCalls::~BatchCalls() = default;

Result<std::unique_ptr<BatchCalls>> BatchCalls::open() {
  const auto environment = act::Environment::of_this_process();
  if (act::configured_region(environment).empty())
    return failure("no region is known: set AWS_REGION, or `region` in ~/.aws/config");
  return std::unique_ptr<BatchCalls>(new BatchCalls(std::make_unique<Parts>(environment)));
}

BatchResult<std::string> BatchCalls::perform(const wire::BatchCall& call) {
  std::optional<act::CallResult<std::string>> answer;
  auto work = [](act::AwsClient& client, wire::BatchCall what,
                 std::optional<act::CallResult<std::string>>& to) -> asio::awaitable<void> {
    auto pending = client.batch(std::move(what), limit);
    to = co_await std::move(pending);
  };
  auto running = work(parts_->client, call, answer);
  asio::co_spawn(parts_->context, std::move(running), asio::detached);
  parts_->context.restart();
  while (!answer && parts_->context.run_one() > 0) {
  }
  if (!answer) return tl::unexpected(BatchError{"", call.action + ": no answer", true});
  if (*answer) return std::move(**answer);
  const act::CallError& error = answer->error();
  return tl::unexpected(BatchError{error.code, describe(error, call.action), error.unsettled()});
}

}  // namespace spotter::command
