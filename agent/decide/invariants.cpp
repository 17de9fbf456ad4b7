#include "agent/decide/invariants.hpp"

namespace spotter::decide {
namespace {

template <class... Stages>
bool in(const Stage& stage) {
  return (std::holds_alternative<Stages>(stage) || ...);
}

// Stages that end by something sensed, or not at all.
bool is_passive(const Stage& stage) {
  return in<Booting, Training, Released, Finished, GaveUp, Leaving>(stage);
}

}  // namespace

const char* broken_invariant(const State& state) {
  const Facts& facts = state.facts;
  const Stage& stage = state.stage;
  if (in<Imaging, Detaching>(stage) && facts.mounted) return "a mounted volume is never detached";
  if (in<Detaching, Unmounting, Releasing>(stage) && facts.trainer_running) {
    return "the volume is never taken from under a running trainer";
  }
  if (in<ReleasingData>(stage) && facts.trainer_running) {
    return "the data is never taken from under a running trainer";
  }
  if (in<Released, GivingBack, Leaving>(stage) && (facts.mounted || facts.trainer_running)) {
    return "nothing is held when the volume is said to be released";
  }
  if (in<Committing>(stage) && (!facts.proven || facts.proven != facts.volume || !facts.attached)) {
    return "the old volume is deleted only after its successor is attached and verified";
  }
  if (in<StartingTrainer, Training>(stage) && facts.purpose != Purpose::Train) {
    return "nothing writes to a copy before the original is gone";
  }
  if (in<Training>(stage) && !(facts.mounted && facts.trainer_running)) {
    return "training means a mounted volume and a running trainer";
  }
  if (in<GivingBack>(stage) && !facts.unfit) return "only a machine that is unfit is given back";
  if (in<MarkingDone>(stage) && !facts.done) return "only a durable result is called done";
  if (in<CancellingFleet>(stage) && !facts.done && facts.surrender == Surrender::None) {
    return "the fleet is cancelled only when the result is durable or the failure policy says so";
  }
  if (!is_passive(stage) && !state.awaited && state.wake_at == kNever) {
    return "every stage awaits an answer, a wake-up, or is one that may rest";
  }
  return nullptr;
}

}  // namespace spotter::decide
