// The volumes of data: read-only, one of each snapshot in this zone. They hold none of the job's
// state, so none is fenced or moved: where one is missing or other instances use it, another is
// made of the same snapshot. What was made is removed when the job is over; the snapshots are the
// user's.
#include <algorithm>

#include "agent/decide/transitions.hpp"

namespace spotter::decide {

Stage prepare_data(Context& c) {
  if (c.policy.data == 0) return fetch_code(c);
  c.facts.holding.data = true;
  c.ask(PrepareData{c.facts.identity.instance, c.facts.identity.zone}, c.policy.prepare_data);
  return PreparingData{};
}

// After a notice only until the deadline; the end of the instance does the rest.
Stage release_data(Context& c, After then, std::uint32_t failures) {
  Duration limit = c.policy.release_data;
  if (c.facts.exit.notice) {
    const Duration left = c.facts.exit.notice->deadline - c.now;
    limit = std::clamp<Duration>(left, c.policy.release_again, limit);
  }
  c.ask(ReleaseData{c.facts.identity.instance, job_is_over(then)}, limit);
  return ReleasingData{then, failures};
}

// At the end of the job: the next change that removes a volume that no instance uses. One that is
// attached here though it was released is detached again: EC2 may show an attachment only after the
// release looked for one.
std::optional<Command> data_left_over(const Survey& survey, const Facts& facts) {
  for (const SeenVolume& volume : survey.data) {
    const bool forgotten = volume.holder && volume.holder == facts.identity.instance &&
                           !facts.holding.data && volume.attachment != AttachmentState::Detaching;
    if (forgotten) return DetachVolume{volume.id, volume.holder};
    const bool free = volume.state == VolumeState::Available || volume.state == VolumeState::Error;
    if (free && !volume.holder) return DeleteVolume{volume.id};
    if (held_by_stopped(volume)) return DetachVolume{volume.id, volume.holder};
  }
  return std::nullopt;
}

// The volumes that other instances use, to be waited for: an agent that sees `done` releases its
// own.
Detail data_in_use(const Survey& survey) {
  std::string words;
  for (const SeenVolume& volume : survey.data) {
    if (volume.state == VolumeState::Deleting) continue;
    words += (words.empty() ? "" : ", ") + volume.id.str();
    if (volume.holder) words += " (" + volume.holder.str() + ")";
  }
  return Detail(words);
}

Next on(const PreparingData&, const Mounted&, Context& c) {
  if (Next end = leaving(c)) return end;
  return fetch_code(c);
}

Next on(const PreparingData&, const EffectFailed& failed, Context& c) {
  if (Next end = leaving(c)) return end;
  if (failed.failure == Failure::Refused) return block(c, Block::NotPermitted, failed.detail);
  // It took all its time for an unknown reason: that counts as time in which a person was needed.
  if (failed.unsettled) c.facts.trouble.blocked += c.policy.prepare_data;
  const bool passing =
      failed.failure == Failure::Unavailable || failed.failure == Failure::Abandoned;
  if (passing && !failed.unsettled) return retry_later(c, failed);
  return block(c, Block::DataUnusable, failed.detail);
}

Next on(const ReleasingData& stage, const Unmounted&, Context& c) {
  c.facts.holding.data = false;
  return settle(c, stage.then);
}

// No instance waits for them. But what is left when the job is over goes on costing, and no agent
// removes it later. An instance that EC2 does not terminate after all still has them.
Next on(const ReleasingData& stage, const EffectFailed&, Context& c) {
  const bool last = stage.failures + 1 >= c.policy.release_data_tries;
  if (c.facts.exit.notice || !job_is_over(stage.then) || last) return settle(c, stage.then);
  c.wake_in(backoff(c.policy, stage.failures));
  return ReleasingData{stage.then, stage.failures + 1};
}

Next on(const ReleasingData& stage, const Woke&, Context& c) {
  return release_data(c, stage.then, stage.failures);
}

}  // namespace spotter::decide
