// Words for stages, events, effects and reasons: for the journal, `spotter status` and the golden
// table.
#pragma once

#include <string>
#include <string_view>

#include "agent/decide/effect.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"

namespace spotter::decide {

// "finding-device", "notice-seen", "attach-volume": stable names for machines.
std::string_view name(const Stage& stage);
std::string_view name(const Happening& happening);
std::string_view name(const Command& command);

// Why nothing moves: "the volume is held by another instance".
std::string_view words(Wait why);

// The problem and what to do about it, for the person who has to act.
std::string_view words(Block why);
std::string_view words(Surrender why);

// "step 500", or "write 5" where no name says the step.
std::string numbered(const Facts& facts, std::int64_t checkpoint);

// One sentence for the journal on entering the stage of `state`; empty: nothing worth saying.
std::string describe(const State& state, const Policy& policy);

}  // namespace spotter::decide
