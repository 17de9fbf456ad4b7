// Where keys come from, without a network: what the chain of credentials.hpp (on Asio) and that of
// agent/aws/s3 (without) have in common.
#pragma once

#include <optional>
#include <string>

#include "agent/aws/formats/imds.hpp"
#include "agent/aws/settings/environment.hpp"
#include "agent/base/result.hpp"

namespace spotter::act {

std::optional<wire::Credentials> credentials_from_environment(const Environment& environment);

// AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), then AWS_CONFIG_FILE (~/.aws/config),
// AWS_PROFILE.
std::optional<wire::Credentials> credentials_from_files(const Environment& environment);

// A container's endpoint (ECS, Batch, EKS).
struct ContainerEndpoint {
  std::string url;
  std::string token;  // the Authorization header; empty: none. Read each time: it is rotated
};
// None: not in a container. Fails when the URL is neither https nor on this host: keys are asked
// for in plain text only there.
Result<std::optional<ContainerEndpoint>> container_endpoint(const Environment& environment);

}  // namespace spotter::act
