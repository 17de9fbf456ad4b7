// The output of a `spotter host` process. Internal to Local.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "agent/service/act/local.hpp"

namespace spotter::act {

// Its JSON, or why there is none.
struct Local::Work {
  nlohmann::json answer;
  std::optional<decide::EffectFailed> failed;
};

}  // namespace spotter::act
