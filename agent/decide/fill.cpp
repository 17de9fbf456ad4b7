// `spotter prepare` (Policy::fills): the job's volume is brought up as for training, filled with
// what job.yaml names, marked, and released. No trainer starts, and no move begins or ends here. It
// waits for no person: where one is needed, it ends.
#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Stage fill(Context& c) {
  c.ask(FillVolume{c.facts.holding.volume}, c.policy.fill);
  return Filling{};
}

// What prevents filling the volume now; nullopt: nothing.
std::optional<Detail> in_use(const Survey& survey, const SeenVolume& volume, const Context& c) {
  const bool ours = volume.holder == c.facts.identity.instance;
  if (volume.done) return Detail(volume.id.str() + " has the tag spotter:done");
  if (volume.holder && !ours) return Detail(volume.holder.view());
  if (volume.zone != c.facts.identity.zone)
    return Detail(volume.id.str() + " in " + volume.zone.str());
  // A claim of ours would make the copy stale, and the instance that made it would begin again.
  // With a fence that instance has the epoch.
  const bool fenced = c.policy.fence && survey.epoch.number != 0;
  return ours || fenced ? std::nullopt : copy_of(survey, volume.id);
}

Next on(const Filling&, const VolumeFilled&, Context& c) {
  if (Next end = leaving(c)) return end;
  c.ask(MarkPrepared{c.facts.holding.volume}, c.policy.ec2_call);
  return MarkingPrepared{};
}

Next on(const Filling&, const EffectFailed& failed, Context& c) {
  if (Next end = leaving(c)) return end;
  return block(c, Block::NotFilled, failed.detail);
}

Next on(const MarkingPrepared&, const CallAccepted&, Context& c) {
  c.facts.exit.filled = true;
  return release_storage(c, After::Exit);
}

// The next run finds all of it there, and marks it.
Next on(const MarkingPrepared&, const EffectFailed& failed, Context& c) {
  if (Next end = leaving(c)) return end;
  return block(c, Block::NotFilled, failed.detail);
}

}  // namespace spotter::decide
