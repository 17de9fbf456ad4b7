// What must hold after every step, whatever happened (agent/README.md, "What must hold"). The loop
// and the simulator ask after each step. A violation is our own bug: the process stops, is started
// again, and looks at the world afresh.
#pragma once

#include "agent/decide/state.hpp"

namespace spotter::decide {

// The first invariant that `state` breaks, in words, or nullptr.
const char* broken_invariant(const State& state);

}  // namespace spotter::decide
