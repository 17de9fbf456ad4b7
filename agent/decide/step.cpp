#include "agent/decide/step.hpp"

#include "agent/decide/transitions.hpp"

namespace spotter::decide {

void step(State& state, const Event& event, const Policy& policy, Effects& effects) {
  effects.clear();
  if (event.effect) {
    if (event.effect != state.awaited) return;
    state.awaited = {};
  }
  if (std::holds_alternative<Woke>(event.what)) {
    if (event.at < state.wake_at) return;
    state.wake_at = kNever;
  }
  const bool changed = std::holds_alternative<CallAccepted>(event.what) ||
                       std::holds_alternative<SnapshotStarted>(event.what) ||
                       std::holds_alternative<VolumeCreated>(event.what);
  if (changed) state.facts.trouble.retries = 0;
  count_taken(state, event);
  Context context{state, state.facts, policy, event.at, effects, std::nullopt};
  const Next next = std::visit(
      [&](const auto& stage, const auto& happening) { return on(stage, happening, context); },
      state.stage, event.what);
  if (context.wake) {
    state.wake_at = *context.wake;
  } else if (next) {
    state.wake_at = kNever;
  }
  if (next) state.stage = *next;
}

}  // namespace spotter::decide
