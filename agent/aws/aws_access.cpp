#include "agent/aws/aws_access.hpp"

#include <random>

#include "agent/io/asio.hpp"

namespace spotter::command {
namespace {

act::AwsSettings settings_of(const act::Environment& environment, Region region) {
  return {.region = region,
          .environment = environment,
          .seed = std::random_device()(),
          .retry = act::retry_policy(environment)};
}

asio::awaitable<Result<std::optional<wire::Credentials>>> role_of(sense::ImdsClient& imds) {
  auto asking = imds.role_credentials();
  auto answer = co_await std::move(asking);
  if (!answer) co_return failure(answer.error().message);
  co_return std::move(*answer);
}

}  // namespace

sense::ImdsSettings imds_settings(const act::Environment& environment) {
  sense::ImdsSettings settings;
  const std::string endpoint = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (!endpoint.empty()) settings.endpoint = endpoint;
  return settings;
}

AwsAccess::AwsAccess(io::HttpClient& http, sense::ImdsClient& imds,
                     const act::Environment& environment, Region region)
    : credentials_(http, environment, [&imds] { return role_of(imds); }),
      client_(http, credentials_, settings_of(environment, region)) {}

}  // namespace spotter::command
