// The core: one pure function. No clock, no I/O, no randomness; the same state and event always
// give the same new state and effects, so whole jobs can be simulated and replayed.
#pragma once

#include "agent/decide/effect.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"

namespace spotter::decide {

// Moves `state` on by one event and leaves in `effects` what is to be done now, in order.
// An answer that is not awaited (late, of an earlier session) changes nothing.
// The caller sends Woke at state.wake_at (kNever: no need), answers every effect once, and asks
// broken_invariant() before it does anything.
void step(State& state, const Event& event, const Policy& policy, Effects& effects);

// The invariants that hold after every step, whatever happened (agent/README.md, "What must hold").
// The loop and the simulator ask after each step. A violation is our own bug: the process stops, is
// started again, and looks at the world afresh.

// The first invariant that `state` breaks, in words, or nullptr.
const char* broken_invariant(const State& state);

}  // namespace spotter::decide
