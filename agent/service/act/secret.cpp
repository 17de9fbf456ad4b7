#include "agent/service/act/secret.hpp"

#include <spdlog/spdlog.h>

#include "agent/job/variables.hpp"
#include "agent/service/act/cloud.hpp"

namespace spotter::act {

using decide::EffectFailed;

asio::awaitable<Result<std::string, EffectFailed>> read_secret(AwsClient& aws,
                                                               config::SecretReference reference,
                                                               Duration limit) {
  if (reference.kind == config::SecretReference::Kind::Parameter) {
    auto call = aws.ssm_parameter(reference.target, limit);
    auto value = co_await std::move(call);
    if (value) co_return std::move(*value);
    EffectFailed failed = as_failure(value.error());
    failed.unsettled = false;  // nothing was changed
    failed.detail = decide::Detail(config::describe(reference) + ": " + value.error().message);
    co_return tl::unexpected(failed);
  }
  const auto no_parameter = [](const std::string& name) -> Result<config::Secret> {
    return failure("ssm:" + name + " is not read here");
  };
  auto resolved = config::resolve(reference, config::variables_of_process(), no_parameter);
  if (!resolved) {
    EffectFailed failed;
    failed.failure = decide::Failure::TrainerUnstartable;
    failed.detail = decide::Detail(resolved.error().message);
    co_return tl::unexpected(failed);
  }
  if (!resolved->warning.empty()) spdlog::warn("{}", resolved->warning);
  co_return resolved->secret.reveal();
}

}  // namespace spotter::act
