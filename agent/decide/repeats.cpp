// A change that EC2 takes, or may have taken, and never shows would be made again with every look
// at the storage: each time at once, and for ever. It is spaced out, and after many that were taken
// a person is asked; an outage, in which nobody knows, is waited out.
#include <algorithm>

#include "agent/decide/describe.hpp"
#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

using Target = ShortText<31>;

// What a change at EC2 is made to; empty: the command is none.
struct TargetOf {
  Target operator()(const AttachVolume& it) const { return it.volume.view(); }
  Target operator()(const DetachVolume& it) const { return it.volume.view(); }
  Target operator()(const ClaimVolume& it) const { return it.volume.view(); }
  Target operator()(const CreateSnapshot& it) const { return it.volume.view(); }
  Target operator()(const CreateVolume& it) const { return it.snapshot.view(); }
  Target operator()(const MarkVerified& it) const { return it.volume.view(); }
  Target operator()(const PromoteVolume& it) const { return it.volume.view(); }
  Target operator()(const DeleteVolume& it) const { return it.volume.view(); }
  Target operator()(const DeleteSnapshot& it) const { return it.snapshot.view(); }
  // Each of the others is named: a new command does not compile before somebody has chosen.
  Target operator()(const LookAtHost&) const { return {}; }
  Target operator()(const ReadIdentity&) const { return {}; }
  Target operator()(const ReadFleet&) const { return {}; }
  Target operator()(const SurveyStorage&) const { return {}; }
  Target operator()(const MarkDone&) const { return {}; }
  Target operator()(const MarkPrepared&) const { return {}; }
  Target operator()(const WriteEpoch&) const { return {}; }  // what was taken is shown at once
  Target operator()(const CancelFleet&) const { return {}; }
  Target operator()(const ScaleFleetToZero&) const { return {}; }
  Target operator()(const GiveBackInstance&) const { return {}; }
  Target operator()(const LeaveFleet&) const { return {}; }
  Target operator()(const CompleteLifecycle&) const { return {}; }
  Target operator()(const FindDevice&) const { return {}; }
  Target operator()(const InspectDisk&) const { return {}; }
  Target operator()(const MakeFilesystem&) const { return {}; }
  Target operator()(const Mount&) const { return {}; }
  Target operator()(const Unmount&) const { return {}; }
  Target operator()(const PrepareShare&) const { return {}; }
  Target operator()(const ReleaseShare&) const { return {}; }
  Target operator()(const PrepareData&) const { return {}; }
  Target operator()(const ReleaseData&) const { return {}; }
  Target operator()(const ReadLedger&) const { return {}; }
  Target operator()(const WriteLedger&) const { return {}; }
  Target operator()(const SyncStorage&) const { return {}; }
  Target operator()(const VerifyCheckpoints&) const { return {}; }
  Target operator()(const AwaitGpus&) const { return {}; }
  Target operator()(const FetchCode&) const { return {}; }
  Target operator()(const FillVolume&) const { return {}; }
  Target operator()(const StartTrainer&) const { return {}; }
  Target operator()(const PaceTrainer&) const { return {}; }
  Target operator()(const StopTrainer&) const { return {}; }
  Target operator()(const KillTrainer&) const { return {}; }
  Target operator()(const Abandon&) const { return {}; }
  Target operator()(const Exit&) const { return {}; }
};

// The change that is awaited; kind 0: none.
Facts::Change asked_for(const Context& c) {
  for (const Effect& effect : c.effects) {
    const Target of = std::visit(TargetOf{}, effect.what);
    if (of && effect.id == c.state.awaited) {
      Facts::Change change;
      change.kind = effect.what.index();
      change.of = of;
      change.asked = effect.id;
      change.asked_at = c.now;
      return change;
    }
  }
  return {};
}

Duration pause_after(const Facts::Change& change, const Policy& policy) {
  const std::uint32_t taken = change.taken + change.unsure;
  if (taken <= policy.changes_at_once) return Duration{0};
  if (taken >= policy.changes_in_vain) return 2 * policy.retry_last;
  return backoff(policy, taken - policy.changes_at_once);
}

Stage put_off(const Facts::Change& change, std::string_view command, Duration left, Context& c) {
  if (change.taken < c.policy.changes_in_vain) return wait(c, Wait::Retry, left);
  const std::string what =
      std::string(command) + " " + change.of.str() + ", " + std::to_string(change.taken) + " times";
  return block(c, Block::ChangeInVain, Detail(what));
}

}  // namespace

Next plan_spaced(const Survey& survey, Context& c) {
  const State before = c.state;
  const Next next = plan(survey, c);
  Facts::Change asked = asked_for(c);
  if (asked.kind == 0) return next;
  const Facts::Change& last = before.facts.trouble.change;
  if (last.kind == asked.kind && last.of == asked.of) {
    const Duration left = last.asked_at + pause_after(last, c.policy) - c.now;
    if (left > Duration::zero()) {
      const std::string_view command = name(c.effects[0].what);
      c.state = before;
      c.effects.clear();
      c.wake.reset();
      return put_off(last, command, left, c);
    }
    asked.taken = last.taken;
    asked.unsure = last.unsure;
  }
  c.facts.trouble.change = asked;
  return next;
}

void count_taken(State& state, const Event& event) {
  Facts::Change& change = state.facts.trouble.change;
  if (!event.effect || event.effect != change.asked) return;
  const auto* failed = std::get_if<EffectFailed>(&event.what);
  if (!failed) ++change.taken;
  if (failed && failed->unsettled) ++change.unsure;
}

}  // namespace spotter::decide
