// The object of a fence in S3: `<fence>/<job>/<the job's first volume>.epoch`, changed only by
// conditional writes (spotter-storage(7), "A fence").
#pragma once

#include <string>
#include <string_view>

#include "agent/base/result.hpp"
#include "agent/decide/epoch.hpp"

namespace spotter::wire {

std::string to_json(const decide::Epoch& epoch);
// Fails for what is no epoch, and for a later `version` (absent: 1): then nobody may write over it.
Result<decide::Epoch> parse_epoch(std::string_view json);

}  // namespace spotter::wire
