// Interruptions: what was saved before the end, and what was trained again after it.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "agent/report/lives.hpp"

namespace spotter::report {
namespace {

std::string seconds_text(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", std::min(seconds, 1e12));
  return text;
}

std::string steps_text(std::int64_t steps) {
  return std::to_string(steps) + (steps == 1 ? " step" : " steps");
}

// The end of the trainer that the interruption brought about, if it could say so.
const Ended* end_after(const Life& life, double time) {
  for (auto each = life.ended.rbegin(); each != life.ended.rend(); ++each)
    if (each->time >= time) return &*each;
  return nullptr;
}

struct Saved {
  Number at;     // when
  Number after;  // the notice
  Count step;
};

// The last checkpoint after the notice is the one from which the next machine goes on; or all was
// durable before it came.
Saved saved_in(const Life& life, const Ended* end) {
  Saved saved;
  const double notice = life.notice->time;
  const Checkpoint* newest = nullptr;
  for (const Checkpoint& each : life.checkpoints)
    if (!newest || each.time >= newest->time) newest = &each;
  if (end) saved.step = end->checkpoint_step;
  if (!newest) return saved;
  if (newest->step && (!saved.step || *newest->step > *saved.step)) saved.step = newest->step;
  const bool nothing_since =
      end && end->step && end->checkpoint_step && *end->step == *end->checkpoint_step;
  if (newest->time < notice && !(nothing_since && newest->step == end->step)) return saved;
  saved.at = newest->time;
  saved.after = between(notice, newest->time);
  return saved;
}

struct Pending {
  std::size_t index = 0;  // in the story
  bool trained = false;
  double stopped = 0;  // when no step was trained any more
};

Interruption announced(const Life& life, Pending& pending) {
  const Notice& notice = *life.notice;
  Interruption it;
  it.kind = notice.action;
  it.notice = notice.time;
  it.deadline = notice.deadline;
  if (notice.deadline) it.window_seconds = between(notice.time, *notice.deadline);
  const Ended* end = end_after(life, notice.time);
  pending.trained = life.trained_at(notice.time) || (end && end->window_trained.value_or(0) > 0);
  pending.stopped = end ? end->time : std::max(life.heard, notice.time);
  if (!pending.trained) return it;
  const Saved saved = saved_in(life, end);
  it.durable = saved.at;
  it.seconds_to_durable = saved.after;
  it.checkpoint_step = saved.step;
  if (end) it.step = end->step;
  if (end) it.window_trained = end->window_trained;
  return it;
}

Interruption lost(const Life& life, Pending& pending) {
  Interruption it;
  it.kind = "lost";
  pending.trained = life.trained_at(life.heard);
  pending.stopped = life.heard;
  if (!pending.trained) return it;
  it.step = life.reached;
  for (const Checkpoint& each : life.checkpoints)
    if (each.step && (!it.checkpoint_step || *each.step > *it.checkpoint_step))
      it.checkpoint_step = each.step;
  return it;
}

void resume(Interruption& it, const Pending& pending, const Resumed& next, bool takes_repeats) {
  it.resumed = next.time;
  it.down_seconds = between(pending.stopped, next.time);
  it.resumed_step = next.step;
  it.repeated_steps = takes_repeats ? next.repeated : Count(0);
  if (!takes_repeats) return;
  if (it.step && next.step)
    it.repeated_steps = std::max(it.repeated_steps.value_or(0), *it.step - *next.step);
  if (next.step && it.repeated_steps) it.step = *next.step + *it.repeated_steps;
}

// --- sentences
std::string of_the_notice(const Interruption& it) {
  if (!it.window_seconds) return "the notice came without a time";
  return "the notice came " + seconds_text(*it.window_seconds) + " before the end";
}

std::string of_the_checkpoint(const Interruption& it) {
  if (it.seconds_to_durable)
    return it.durable < it.notice
               ? "the checkpoint of step " + std::to_string(it.checkpoint_step.value_or(0)) +
                     " was durable already"
               : "checkpoint durable after " + seconds_text(*it.seconds_to_durable);
  return "no checkpoint became durable in that time";
}

std::string of_the_repeats(const Interruption& it) {
  if (!it.resumed) return "nobody has gone on yet";
  if (!it.repeated_steps) return "how much was repeated is not known";
  if (*it.repeated_steps == 0)
    return it.kind == "lost" ? "no step is known to have been repeated" : "nothing repeated";
  std::string since = "since the last checkpoint";
  if (it.resumed_step && *it.resumed_step == 0)
    return "all of it repeated, from step 0: " + steps_text(*it.repeated_steps);
  if (it.resumed_step) since += ", step " + std::to_string(*it.resumed_step);
  return steps_text(*it.repeated_steps) + " repeated that were trained " + since;
}

std::string why_of(const Interruption& it, bool trained) {
  const bool is_lost = it.kind == "lost";
  const std::string cause = is_lost ? "the machine was lost without notice" : of_the_notice(it);
  if (!trained) return cause + ": no step was being trained on it, nothing repeated";
  std::string trained_on;
  if (it.window_trained && *it.window_trained > 0)
    trained_on = seconds_text(*it.window_trained) + " of them were trained on, ";
  const std::string saved = is_lost ? "" : trained_on + of_the_checkpoint(it) + ", ";
  return cause + ": " + saved + of_the_repeats(it);
}

std::string cause_on_a_machine(const std::vector<Ended>& ended, double before) {
  const Ended* last = nullptr;
  for (const Ended& each : ended)
    if (each.time <= before) last = &each;
  if (!last) return "the trainer was started again";
  const std::string at = last->step ? " at step " + std::to_string(*last->step) : "";
  if (last->how == "failed") return "the trainer failed" + at + " and was started again";
  if (last->how == "stopped") return "the trainer was stopped" + at + " and started again";
  if (last->how == "killed") return "the trainer was killed" + at + " and started again";
  return "the trainer was gone" + at + " and was started again";
}

class Teller {
 public:
  void tell(const Life& life) {
    for (const Resumed& each : life.resumed) resumed(life, each);
    if (life.interrupted()) interrupted(life);
    before_ = &life;
  }
  Story take() {
    for (std::size_t i = 0; i < story_.interruptions.size(); ++i)
      story_.interruptions[i].why = why_of(story_.interruptions[i], trained_[i]);
    for (auto& [repeat, interruption] : owed_)
      story_.repeats[repeat].why = story_.interruptions[interruption].why;
    return std::move(story_);
  }

 private:
  void interrupted(const Life& life) {
    Pending pending;
    const bool is_lost = life.shown.end == Instance::End::Lost;
    Interruption it = is_lost ? lost(life, pending) : announced(life, pending);
    it.instance = life.shown.id;
    it.zone = life.shown.zone;
    it.experiment = life.shown.experiment;
    it.time = it.notice.value_or(life.heard);
    pending.index = story_.interruptions.size();
    story_.interruptions.push_back(std::move(it));
    trained_.push_back(pending.trained);
    pending_.push_back(pending);
  }

  // Whoever goes on ends all that is still open: of several machines one had trained.
  void resumed(const Life& life, const Resumed& next) {
    std::size_t owner = pending_.size();
    for (std::size_t i = pending_.size(); i-- > 0 && owner == pending_.size();)
      if (pending_[i].trained) owner = i;
    for (std::size_t i = 0; i < pending_.size(); ++i)
      resume(story_.interruptions[pending_[i].index], pending_[i], next, i == owner);
    const bool is_owed = owner < pending_.size();
    const Count again =
        is_owed ? story_.interruptions[pending_[owner].index].repeated_steps : next.repeated;
    if (again.value_or(0) > 0) {
      Repeat repeat{next.time, life.shown.id, next.step.value_or(0), *again, ""};
      if (is_owed)
        owed_.emplace_back(story_.repeats.size(), pending_[owner].index);
      else
        repeat.why = cause(life, next);
      story_.repeats.push_back(std::move(repeat));
    }
    pending_.clear();
  }

  std::string cause(const Life& life, const Resumed& next) const {
    const bool first = &next == &life.resumed.front();
    if (!first || !before_ || before_->left.empty())
      return cause_on_a_machine(life.ended, next.time);
    return "the agent had left " + before_->shown.id + " (" + before_->left + ")";
  }

  Story story_;
  std::vector<bool> trained_;
  std::vector<Pending> pending_;
  std::vector<std::pair<std::size_t, std::size_t>> owed_;
  const Life* before_ = nullptr;
};

}  // namespace

Interruption standing_notice(const Life& life) {
  Pending pending;
  Interruption it = announced(life, pending);
  it.instance = life.shown.id;
  it.zone = life.shown.zone;
  it.experiment = life.shown.experiment;
  return it;
}

Story story_of(const std::vector<Life>& lives) {
  Teller teller;
  for (const Life& life : lives) teller.tell(life);
  return teller.take();
}

}  // namespace spotter::report
