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

namespace {

template <class... Stages>
bool in(const Stage& stage) {
  return (std::holds_alternative<Stages>(stage) || ...);
}

// Stages that end by an event that is sensed, or not at all.
bool is_passive(const Stage& stage) {
  return in<Booting, Training, Released, Finished, GaveUp, Leaving>(stage);
}

}  // namespace

const char* broken_invariant(const State& state) {
  const Facts& facts = state.facts;
  const Stage& stage = state.stage;
  if (in<FinalSnapshot, Detaching>(stage) && (facts.holding.mounted || facts.holding.unproven))
    return "a volume that is mounted, or may be, is never detached";
  if (in<Detaching, Unmounting, Releasing>(stage) && facts.trainer.running)
    return "the volume is never taken from under a running trainer";
  if (in<ReleasingData>(stage) && facts.trainer.running)
    return "the data is never taken from under a running trainer";
  // A process that does not end may keep it busy until the machine ends: this one, or the whole
  // fleet.
  const auto& exit = facts.exit;
  const bool ends = exit.unfit || exit.done || exit.surrender != Surrender::None;
  const bool stuck = in<GivingBack, Leaving>(stage) && ends;
  if (in<Released, GivingBack, Leaving>(stage) &&
      ((facts.holding.mounted && !stuck) || facts.trainer.running)) {
    return "nothing is held when the volume is said to be released";
  }
  if (in<Committing>(stage) &&
      (!facts.move.verified || facts.move.verified != facts.holding.volume ||
       !facts.holding.attached)) {
    return "the old volume is deleted only after its successor is attached and verified";
  }
  if (in<StartingTrainer, Training>(stage) && facts.holding.purpose != Purpose::Train)
    return "nothing writes to a copy before the original is gone";
  if (in<Training>(stage) && !(facts.holding.mounted && facts.trainer.running))
    return "training means a mounted volume and a running trainer";
  if (in<ReleasingEpoch>(stage) && (facts.holding.mounted || facts.trainer.running))
    return "the epoch is released only when nothing of the job is in use here";
  if (in<GivingBack>(stage) && !facts.exit.unfit)
    return "only a machine that is unfit is given back";
  if (in<MarkingDone>(stage) && !facts.exit.done) return "only a durable result is called done";
  if (in<CancellingFleet>(stage) && !facts.exit.done && facts.exit.surrender == Surrender::None)
    return "the fleet is cancelled only when the result is durable or the failure policy says so";
  if (!is_passive(stage) && !state.awaited && state.wake_at == kNever)
    return "every stage awaits an answer, a wake-up, or is one that may rest";
  return nullptr;
}

}  // namespace spotter::decide
