// Reads a secret's value by its reference in job.yaml.
#pragma once

#include <string>

#include "agent/aws/aws_client.hpp"
#include "agent/base/result.hpp"
#include "agent/decide/event.hpp"
#include "agent/job/secrets.hpp"

namespace spotter::act {

// A failure names the reference, never the value. Files and variables are read at once; an SSM
// parameter takes `limit` at most.
asio::awaitable<Result<std::string, decide::EffectFailed>> read_secret(
    AwsClient& aws, config::SecretReference reference, Duration limit);

}  // namespace spotter::act
