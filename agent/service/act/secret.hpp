// A secret's value, from wherever job.yaml says that it is.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "agent/aws/aws_client.hpp"
#include "agent/decide/event.hpp"
#include "agent/job/secrets.hpp"

namespace spotter::act {

// The failure names the reference, never the value. A file and a variable are read at once; a
// parameter of SSM takes `limit` at most.
asio::awaitable<tl::expected<std::string, decide::EffectFailed>> read_secret(
    AwsClient& aws, config::SecretReference reference, Duration limit);

}  // namespace spotter::act
