// `spotter prepare` (Policy::fills): the job's volume is brought up as for training, filled with
// what job.yaml names, marked, and let go of. No trainer starts, no move begins or ends here, and
// nobody is waited for: what needs a person ends it.
#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Stage fill(Context& c) {
  c.ask(FillVolume{c.facts.volume}, c.policy.fill);
  return Filling{};
}

// Why it is not to be filled now, by the name of what is in the way.
std::optional<Detail> in_use(const Survey& survey, const SeenVolume& volume, const Context& c) {
  const bool ours = volume.holder == c.facts.instance;
  if (volume.done) return Detail(volume.id.str() + " has the tag spotter:done");
  if (volume.holder && !ours) return Detail(volume.holder.view());
  if (volume.zone != c.facts.zone) return Detail(volume.id.str() + " in " + volume.zone.str());
  // A claim of ours fences the copy off, but it would be in vain: its maker begins again.
  const std::optional<Detail> copy = copy_of(survey, volume.id);
  return ours ? std::nullopt : copy;
}

Next on(const Filling&, const VolumeFilled&, Context& c) {
  if (Next end = leaving(c)) return end;
  c.ask(MarkPrepared{c.facts.volume}, c.policy.ec2_call);
  return MarkingPrepared{};
}

Next on(const Filling&, const EffectFailed& failed, Context& c) {
  if (Next end = leaving(c)) return end;
  return block(c, Block::NotFilled, failed.detail);
}

Next on(const MarkingPrepared&, const CallAccepted&, Context& c) {
  c.facts.filled = true;
  return let_go(c, After::Exit);
}

// Run again, it finds all of it there, and marks it.
Next on(const MarkingPrepared&, const EffectFailed& failed, Context& c) {
  if (Next end = leaving(c)) return end;
  return block(c, Block::NotFilled, failed.detail);
}

}  // namespace spotter::decide
