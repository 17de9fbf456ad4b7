// Interruptions: what was saved before the end, and what was repeated after it.
#include <algorithm>

#include "agent/base/text.hpp"
#include "agent/report/boots.hpp"

namespace spotter::report {
namespace {

std::string seconds_text(double seconds) {
  return printed(seconds < 10 ? "%.1f s" : "%.0f s", std::min(seconds, 1e12));
}

std::string steps_text(std::int64_t steps) {
  return std::to_string(steps) + (steps == 1 ? " step" : " steps");
}

// The end of the trainer caused by the interruption, if it was recorded.
const Ended* end_after(const Boot& boot, double time) {
  for (auto each = boot.ended.rbegin(); each != boot.ended.rend(); ++each)
    if (each->time >= time) return &*each;
  return nullptr;
}

struct Saved {
  Number at;     // when
  Number after;  // after the notice
  Count step;
};

// The last checkpoint after the notice is the one that the next machine resumes from; or all was
// durable before the notice.
Saved saved_in(const Boot& boot, const Ended* end) {
  Saved saved;
  const double notice = boot.notice->time;
  const Checkpoint* newest = nullptr;
  for (const Checkpoint& each : boot.checkpoints)
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

struct Cut {
  Interruption it;
  bool trained = false;
  double stopped = 0;  // when the last step ended
};

Cut cut_of(const Boot& boot, std::string kind) {
  Cut cut;
  cut.it.kind = std::move(kind);
  cut.it.instance = boot.shown.id;
  cut.it.zone = boot.shown.zone;
  cut.it.experiment = boot.shown.experiment;
  return cut;
}

Cut announced(const Boot& boot) {
  const Notice& notice = *boot.notice;
  Cut cut = cut_of(boot, notice.action);
  Interruption& it = cut.it;
  it.notice = notice.time;
  it.deadline = notice.deadline;
  if (notice.deadline) it.window_seconds = between(notice.time, *notice.deadline);
  const Ended* end = end_after(boot, notice.time);
  cut.trained = boot.trained_at(notice.time) || (end && end->window_trained.value_or(0) > 0);
  cut.stopped = end ? end->time : std::max(boot.last_seen, notice.time);
  if (!cut.trained) return cut;
  const Saved saved = saved_in(boot, end);
  it.durable = saved.at;
  it.seconds_to_durable = saved.after;
  it.checkpoint_step = saved.step;
  if (end) it.step = end->step;
  if (end) it.window_trained = end->window_trained;
  return cut;
}

Cut lost(const Boot& boot) {
  Cut cut = cut_of(boot, "lost");
  cut.trained = boot.trained_at(boot.last_seen);
  cut.stopped = boot.last_seen;
  if (!cut.trained) return cut;
  cut.it.step = boot.reached;
  for (const Checkpoint& each : boot.checkpoints)
    if (each.step && (!cut.it.checkpoint_step || *each.step > *cut.it.checkpoint_step))
      cut.it.checkpoint_step = each.step;
  return cut;
}

void resume(Cut& cut, const Resumed& next, bool takes_repeats) {
  Interruption& it = cut.it;
  it.resumed = next.time;
  it.down_seconds = between(cut.stopped, next.time);
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
  void tell(const Boot& boot) {
    for (const Resumed& each : boot.resumed) resumed(boot, each);
    if (boot.interrupted()) {
      cuts_.push_back(boot.shown.end == Instance::End::Lost ? lost(boot) : announced(boot));
      cuts_.back().it.time = cuts_.back().it.notice.value_or(boot.last_seen);
    }
    before_ = &boot;
  }
  Story take() {
    for (Cut& each : cuts_) {
      each.it.why = why_of(each.it, each.trained);
      story_.interruptions.push_back(std::move(each.it));
    }
    for (auto& [repeat, interruption] : owed_)
      story_.repeats[repeat].why = story_.interruptions[interruption].why;
    return std::move(story_);
  }

 private:
  // The machine that resumes ends all open interruptions: only one machine had trained.
  void resumed(const Boot& boot, const Resumed& next) {
    std::size_t owner = cuts_.size();
    for (std::size_t i = open_; i < cuts_.size(); ++i)
      if (cuts_[i].trained) owner = i;
    for (std::size_t i = open_; i < cuts_.size(); ++i) resume(cuts_[i], next, i == owner);
    const bool is_owed = owner < cuts_.size();
    const Count again = is_owed ? cuts_[owner].it.repeated_steps : next.repeated;
    if (again.value_or(0) > 0) {
      Repeat repeat{next.time, boot.shown.id, next.step.value_or(0), *again, ""};
      if (is_owed)
        owed_.emplace_back(story_.repeats.size(), owner);
      else
        repeat.why = cause(boot, next);
      story_.repeats.push_back(std::move(repeat));
    }
    open_ = cuts_.size();
  }

  std::string cause(const Boot& boot, const Resumed& next) const {
    const bool first = &next == &boot.resumed.front();
    if (!first || !before_ || before_->left.empty())
      return cause_on_a_machine(boot.ended, next.time);
    return "the agent had left " + before_->shown.id + " (" + before_->left + ")";
  }

  Story story_;
  std::vector<Cut> cuts_;
  std::size_t open_ = 0;  // from here on nobody has resumed
  std::vector<std::pair<std::size_t, std::size_t>> owed_;
  const Boot* before_ = nullptr;
};

}  // namespace

Interruption standing_notice(const Boot& boot) { return announced(boot).it; }

Story story_of(const std::vector<Boot>& boots) {
  Teller teller;
  for (const Boot& boot : boots) teller.tell(boot);
  return teller.take();
}

}  // namespace spotter::report
