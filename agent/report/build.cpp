#include <algorithm>
#include <charconv>
#include <cmath>

#include "agent/base/clock_text.hpp"
#include "agent/base/json.hpp"
#include "agent/report/lives.hpp"
#include "agent/wire/status.hpp"

namespace spotter::report {
namespace {

using End = Instance::End;

std::string state_of_phase(const std::string& phase) {
  for (const char* same : {"training", "moving", "blocked", "released", "finished", "gave-up"})
    if (phase == same) return phase;
  if (phase == "finishing") return "training";
  if (phase == "stopping" || phase == "releasing") return "released";
  return "waiting";
}

std::string ago(double now, double time) {
  return wire::duration_text(between(time, now)) + " ago";
}

struct Stands {
  std::string state, says;
};

// The last that began, unless the one with the storage is still at it, or has done it.
const Life* one_to_ask(const std::vector<Life>& lives) {
  for (auto each = lives.rbegin(); each != lives.rend(); ++each) {
    if (!each->took_over()) continue;
    const bool at_it = each->shown.end == End::Running && each->trained_at(each->heard);
    if (at_it || each->shown.end == End::Finished) return &*each;
    break;
  }
  return lives.empty() ? nullptr : &lives.back();
}

sweep::Summary::State state_of(const std::vector<Life>& lives) {
  using State = sweep::Summary::State;
  switch (one_to_ask(lives)->shown.end) {
    case End::Finished:
      return State::Done;
    case End::Failed:
      return State::Failed;
    case End::Running:
      return State::Running;
    default:
      return State::Stopped;
  }
}

Stands stands(const std::vector<Life>& lives, double now) {
  const Life* const life = one_to_ask(lives);
  if (!life) return {"unknown", "nothing is known of it"};
  const std::string last =
      life->says.empty() ? "its last machine was " + life->shown.id : life->says;
  switch (life->shown.end) {
    case End::Finished:
      return {"finished", "finished on " + life->shown.id};
    case End::Failed:
      return {"gave-up", last};
    case End::Left:
      return {"released", "the agent left " + life->shown.id + " as it was asked to"};
    case End::Interrupted:
    case End::Lost:
      return {"waiting",
              "no machine for " +
                  wire::duration_text(between(life->shown.ended.value_or(life->heard), now)) +
                  ": waiting for capacity"};
    case End::Running:
      break;
  }
  Stands its{
      life->shown.phases.empty() ? "waiting" : state_of_phase(life->shown.phases.back().phase),
      last};
  if (now - life->heard > silence)
    its = {"unknown", its.says + "; last heard of " + ago(now, life->heard)};
  return its;
}

Count count(const wire::Json& object, const char* name) {
  const auto value = object.value(name, wire::Json());
  constexpr double largest = 9e15;
  if (!value.is_number() || std::abs(value.get<double>()) > largest) return std::nullopt;
  return std::llround(value.get<double>());
}

Progress progress_of(const wire::Curve& curve, const wire::Json& status) {
  Progress progress{count(status, "step"),
                    count(status, "steps_total"),
                    count(status, "epoch"),
                    count(status, "epochs_total"),
                    wire::number_field(status, "loss"),
                    wire::number_field(status, "accuracy"),
                    wire::number_field(status, "steps_per_second")};
  const auto last = curve.last();
  if (!last) return progress;
  const auto step = static_cast<std::int64_t>(last->step);
  if (!progress.step || *progress.step < step) progress.step = step;
  if (!progress.epoch && last->epoch) progress.epoch = static_cast<std::int64_t>(*last->epoch);
  if (!progress.loss) progress.loss = last->loss;
  if (!progress.accuracy) progress.accuracy = last->accuracy;
  return progress;
}

// "2026-11-22T20:28:00.123Z i-0abc warning words": as io/log keeps lines.
std::optional<JournalLine> parse_log_line(std::string_view line) {
  JournalLine it;
  const auto word = [&line] {
    const auto end = std::min(line.find(' '), line.size());
    const std::string_view found = line.substr(0, end);
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    return found;
  };
  const std::string_view time = word();
  const auto at = wire::parse_rfc3339(time);
  if (!at) return std::nullopt;
  it.time = static_cast<double>(at->time_since_epoch().count());
  it.instance = word();
  it.level = word();
  it.words = line;
  return it;
}

std::vector<JournalLine> journal_of_log(std::string_view log) {
  std::vector<JournalLine> lines;
  while (!log.empty() && lines.size() < most_journal_lines) {
    log.remove_suffix(log.ends_with('\n') ? 1 : 0);
    const auto begin = log.rfind('\n') + 1;  // 0 where there is none
    if (auto line = parse_log_line(log.substr(begin))) lines.push_back(std::move(*line));
    log = log.substr(0, begin);
  }
  std::ranges::reverse(lines);
  return lines;
}

void keep_newest(std::vector<JournalLine>& journal) {
  std::ranges::stable_sort(journal, {}, &JournalLine::time);
  if (journal.size() > most_journal_lines)
    journal.erase(journal.begin(), journal.end() - static_cast<long>(most_journal_lines));
}

// A machine that was up long before brought nobody.
Instance shown_of(const Life& life) {
  Instance shown = life.shown;
  if (shown.booted && begin_of(shown) != *shown.booted) shown.booted.reset();
  return shown;
}

class Builder {
 public:
  explicit Builder(const Told& told) : told_(told) {
    model_.job = told.job;
    model_.experiment = told.experiment;
    model_.now = told.now;
  }

  Model build() {
    const auto parsed = wire::parse_json_object(told_.status);
    const wire::Json status = parsed ? *parsed : wire::Json::object();
    experiments_ = told_.experiments;
    for (const Source& source : told_.sources) add(source);
    sort();
    if (told_.sources.size() == 1) model_.curve = told_.sources.front().curve;
    model_.curve.thin(most_points);
    model_.progress = progress_of(model_.curve, status);
    if (model_.job.empty()) model_.job = wire::text_field(status, "job");
    if (tracks_.size() == 1)
      tracks_[0].reached = std::max(tracks_[0].reached, model_.progress.step.value_or(0));
    stand(status);
    span();
    model_.cost = cost_of(lives_, told_.prices, told_.now);
    for (const Life& life : lives_)
      if (life.clock_set)
        model_.cost.notes.push_back("the clock of " + life.shown.id +
                                    " was set back while it ran: do not rely on its times, nor "
                                    "on what is summed up of them");
    const bool alone = told_.sources.size() < 2;
    const double elapsed = lives_.empty() ? 0
                           : alone        ? between(model_.from, model_.to.value_or(heard()))
                                          : model_.cost.instance_seconds;
    model_.goodput = goodput_of(tracks_, model_.repeats, {told_.now, elapsed});
    if (told_.is_sweep) model_.sweep = Sweep{told_.parameters, std::move(experiments_)};
    return std::move(model_);
  }

 private:
  void add(const Source& source) {
    model_.foreign += source.history.foreign;
    Track track{lives_of(source, told_.now)};
    if (const auto last = source.curve.last())
      track.reached = static_cast<std::int64_t>(last->step);
    Story story = story_of(track.lives);
    std::ranges::move(story.interruptions, std::back_inserter(model_.interruptions));
    std::ranges::move(story.repeats, std::back_inserter(model_.repeats));
    for (const Life& life : track.lives) {
      if (life.shown.end == Instance::End::Running && life.notice)
        model_.notices.push_back(standing_notice(life));
      model_.instances.push_back(shown_of(life));
      std::ranges::copy(life.checkpoints, std::back_inserter(model_.checkpoints));
      std::ranges::copy(life.volumes, std::back_inserter(model_.volumes));
      std::ranges::copy(life.journal, std::back_inserter(model_.journal));
      lives_.push_back(life);
    }
    if (source.experiment) complete(source, track.lives);
    tracks_.push_back(std::move(track));
  }
  // An experiment of which only its history is known.
  void complete(const Source& source, const std::vector<Life>& lives) {
    auto found = std::ranges::find(experiments_, *source.experiment, &sweep::Summary::index);
    if (found == experiments_.end()) {
      experiments_.emplace_back().index = *source.experiment;
      found = experiments_.end() - 1;
    }
    if (found->state != sweep::Summary::State::Waiting || lives.empty()) return;
    found->state = state_of(lives);
    for (const Life& life : lives) {
      found->attempts += life.resumed.size();
      found->seconds += between(life.shown.began, life.shown.ended.value_or(life.heard));
    }
    found->curve = source.curve;
    found->curve.thin(sweep::Summary::most_points);
  }
  // Of several experiments side by side. What one of them told keeps its order.
  void sort() {
    if (told_.sources.size() > 1) {
      std::ranges::stable_sort(model_.instances, {}, &Instance::began);
      std::ranges::stable_sort(model_.interruptions, {}, &Interruption::time);
      std::ranges::stable_sort(model_.repeats, {}, &Repeat::time);
      std::ranges::stable_sort(lives_, {}, [](const Life& life) { return life.shown.began; });
    }
    std::ranges::stable_sort(model_.checkpoints, {}, &Checkpoint::time);
    std::ranges::stable_sort(model_.volumes, {}, &VolumeChange::time);
    auto log = journal_of_log(told_.log);
    if (!log.empty()) model_.journal = std::move(log);
    keep_newest(model_.journal);
  }
  void stand(const wire::Json& status) {
    auto [state, says] = stands(lives_, told_.now);
    if (told_.is_sweep && !experiments_.empty()) {
      const auto done =
          std::ranges::count(experiments_, sweep::Summary::State::Done, &sweep::Summary::state);
      const auto all = static_cast<long>(experiments_.size());
      says = std::to_string(done) + " of " + std::to_string(all) + " experiments are done";
      if (done == all)
        state = "finished";
      else if (state == "finished")
        state = "waiting";
    } else if (!lives_.empty() && one_to_ask(lives_)->shown.end == End::Running) {
      if (const auto said = wire::text_field(status, "says"); !said.empty()) says = said;
    }
    model_.state = std::move(state);
    model_.says = std::move(says);
  }
  // Until when it is known how it went: a machine that says nothing may have trained all the time.
  double heard() const {
    const Life* const life = one_to_ask(lives_);
    const bool is_silent = life->shown.end == End::Running && told_.now - life->heard > silence;
    return is_silent ? life->heard : told_.now;
  }
  void span() {
    model_.from = told_.now;
    double end = 0;
    for (const Life& life : lives_) {
      model_.from = std::min(model_.from, begin_of(life.shown));
      end = std::max(end, life.shown.ended.value_or(life.heard));
    }
    const bool over = model_.state == "finished" || model_.state == "gave-up";
    if (over && !lives_.empty()) model_.to = std::max(end, model_.from);
  }

  const Told& told_;
  Model model_;
  std::vector<sweep::Summary> experiments_;
  std::vector<Track> tracks_;
  std::vector<Life> lives_;
};

}  // namespace

Model build(const Told& told) { return Builder(told).build(); }

std::vector<Instance> instances_of(const Told& told) {
  std::vector<Instance> all;
  for (const Source& source : told.sources)
    for (const Life& life : lives_of(source, told.now)) all.push_back(shown_of(life));
  return all;
}

}  // namespace spotter::report
