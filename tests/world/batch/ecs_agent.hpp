// Settings of ECS's agent on an environment's hosts, from the user data of its launch template.
// Source:
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-agent-config.html
#pragma once

#include "tests/world/batch/state.hpp"

namespace spotter::world::batch {

// At an interruption's notice: ECS_ENABLE_SPOT_INSTANCE_DRAINING=true.
bool drains_at_notice(const State& state, const Host& host);
// From SIGTERM to SIGKILL: ECS_CONTAINER_STOP_TIMEOUT=100s, or its default.
Duration stop_timeout(const State& state, const Host& host);

}  // namespace spotter::world::batch
