#include <algorithm>
#include <cmath>

#include "agent/base/clock_text.hpp"
#include "agent/report/boots.hpp"
#include "agent/wire/datagram.hpp"
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

// The boot that began last, unless the one with the storage still trains or has finished.
const Boot* boot_to_show(const std::vector<Boot>& boots) {
  for (auto each = boots.rbegin(); each != boots.rend(); ++each) {
    if (!each->took_over()) continue;
    const bool at_it = each->shown.end == End::Running && each->trained_at(each->last_seen);
    if (at_it || each->shown.end == End::Finished) return &*each;
    break;
  }
  return boots.empty() ? nullptr : &boots.back();
}

sweep::Summary::State state_of(const std::vector<Boot>& boots) {
  using State = sweep::Summary::State;
  switch (boot_to_show(boots)->shown.end) {
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

Stands stands(const std::vector<Boot>& boots, double now) {
  const Boot* const boot = boot_to_show(boots);
  if (!boot) return {"unknown", "nothing is known of it"};
  const std::string last =
      boot->says.empty() ? "its last machine was " + boot->shown.id : boot->says;
  switch (boot->shown.end) {
    case End::Finished:
      return {"finished", "finished on " + boot->shown.id};
    case End::Failed:
      return {"gave-up", last};
    case End::Left:
      return {"released", "the agent left " + boot->shown.id + " as it was asked to"};
    case End::Interrupted:
    case End::Lost:
      return {"waiting",
              "no machine for " +
                  wire::duration_text(between(boot->shown.ended.value_or(boot->last_seen), now)) +
                  ": waiting for capacity"};
    case End::Running:
      break;
  }
  Stands its{
      boot->shown.phases.empty() ? "waiting" : state_of_phase(boot->shown.phases.back().phase),
      last};
  if (now - boot->last_seen > silence)
    its = {"unknown", its.says + "; last entry " + ago(now, boot->last_seen)};
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
                    wire::number_field(status, "steps_per_second"),
                    wire::metrics_field(status, "metrics"),
                    wire::text_field(status, "checkpoint_counts")};
  const auto last = curve.last();
  if (!last) return progress;
  const auto step = static_cast<std::int64_t>(last->step);
  if (!progress.step || *progress.step < step) progress.step = step;
  if (!progress.epoch && last->epoch) progress.epoch = static_cast<std::int64_t>(*last->epoch);
  if (!progress.loss) progress.loss = last->loss;
  if (!progress.accuracy) progress.accuracy = last->accuracy;
  progress.metrics.insert(last->metrics.begin(), last->metrics.end());
  return progress;
}

// "2026-11-22T20:28:00.123Z i-0abc warning words", the format of io/log.
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
    const auto begin = log.rfind('\n') + 1;  // 0 if there is none
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

// Removes the boot time of a machine that booted long before it ran this job.
Instance shown_of(const Boot& boot) {
  Instance shown = boot.shown;
  if (shown.booted && begin_of(shown) != *shown.booted) shown.booted.reset();
  return shown;
}

class Builder {
 public:
  explicit Builder(const Input& input) : input_(input) {
    model_.job = input.job;
    model_.experiment = input.experiment;
    model_.now = input.now;
  }

  Model build() {
    const auto parsed = wire::parse_json_object(input_.status);
    const wire::Json status = parsed ? *parsed : wire::Json::object();
    experiments_ = input_.experiments;
    for (const Source& source : input_.sources) add(source);
    sort();
    if (input_.sources.size() == 1) model_.curve = input_.sources.front().curve;
    model_.curve.thin(most_points);
    model_.progress = progress_of(model_.curve, status);
    if (model_.job.empty()) model_.job = wire::text_field(status, "job");
    if (tracks_.size() == 1)
      tracks_[0].reached = std::max(tracks_[0].reached, model_.progress.step.value_or(0));
    stand(status);
    span();
    model_.cost = cost_of(boots_, input_.prices, input_.now);
    for (const Boot& boot : boots_)
      if (boot.clock_set)
        model_.cost.notes.push_back("the clock of " + boot.shown.id +
                                    " was set back while it ran: do not rely on its times, nor "
                                    "on what is summed up of them");
    const bool alone = input_.sources.size() < 2;
    const double elapsed = boots_.empty() ? 0
                           : alone        ? between(model_.from, model_.to.value_or(last_seen()))
                                          : model_.cost.instance_seconds;
    model_.goodput = goodput_of(tracks_, model_.repeats, {input_.now, elapsed});
    if (input_.is_sweep) {
      auto ranking = sweep::ranking_of(experiments_, input_.objective);
      model_.sweep = Sweep{input_.parameters, std::move(experiments_), std::move(ranking)};
    }
    return std::move(model_);
  }

 private:
  void add(const Source& source) {
    model_.foreign += source.history.foreign;
    Track track{boots_of(source, input_.now)};
    if (const auto last = source.curve.last())
      track.reached = static_cast<std::int64_t>(last->step);
    Story story = story_of(track.boots);
    std::ranges::move(story.interruptions, std::back_inserter(model_.interruptions));
    std::ranges::move(story.repeats, std::back_inserter(model_.repeats));
    for (const Boot& boot : track.boots) {
      if (boot.shown.end == Instance::End::Running && boot.notice)
        model_.notices.push_back(standing_notice(boot));
      model_.instances.push_back(shown_of(boot));
      std::ranges::copy(boot.checkpoints, std::back_inserter(model_.checkpoints));
      std::ranges::copy(boot.volumes, std::back_inserter(model_.volumes));
      std::ranges::copy(boot.journal, std::back_inserter(model_.journal));
      boots_.push_back(boot);
    }
    if (source.experiment) complete(source, track.boots);
    tracks_.push_back(std::move(track));
  }
  // Completes an experiment of which only the history is known.
  void complete(const Source& source, const std::vector<Boot>& boots) {
    auto found = std::ranges::find(experiments_, *source.experiment, &sweep::Summary::index);
    if (found == experiments_.end()) {
      experiments_.emplace_back().index = *source.experiment;
      found = experiments_.end() - 1;
    }
    if (found->state != sweep::Summary::State::Waiting || boots.empty()) return;
    found->state = state_of(boots);
    for (const Boot& boot : boots) {
      found->attempts += boot.resumed.size();
      found->seconds += between(boot.shown.began, boot.shown.ended.value_or(boot.last_seen));
    }
    found->curve = source.curve;
    found->curve.thin(sweep::Summary::most_points);
  }
  // Sorts what several experiments recorded side by side; keeps each one's own order.
  void sort() {
    if (input_.sources.size() > 1) {
      std::ranges::stable_sort(model_.instances, {}, &Instance::began);
      std::ranges::stable_sort(model_.interruptions, {}, &Interruption::time);
      std::ranges::stable_sort(model_.repeats, {}, &Repeat::time);
      std::ranges::stable_sort(boots_, {}, [](const Boot& boot) { return boot.shown.began; });
    }
    std::ranges::stable_sort(model_.checkpoints, {}, &Checkpoint::time);
    std::ranges::stable_sort(model_.volumes, {}, &VolumeChange::time);
    auto log = journal_of_log(input_.log);
    if (!log.empty()) model_.journal = std::move(log);
    keep_newest(model_.journal);
  }
  void stand(const wire::Json& status) {
    auto [state, says] = stands(boots_, input_.now);
    if (input_.is_sweep && !experiments_.empty()) {
      const auto done =
          std::ranges::count(experiments_, sweep::Summary::State::Done, &sweep::Summary::state);
      const auto all = static_cast<long>(experiments_.size());
      says = std::to_string(done) + " of " + std::to_string(all) + " experiments are done";
      const auto early = std::ranges::count_if(
          experiments_, [](const sweep::Summary& it) { return !it.stopped_early.empty(); });
      if (early > 0) says += ", " + std::to_string(early) + " of them stopped early";
      if (done == all)
        state = "finished";
      else if (state == "finished")
        state = "waiting";
    } else if (!boots_.empty() && boot_to_show(boots_)->shown.end == End::Running) {
      if (const auto said = wire::text_field(status, "says"); !said.empty()) says = said;
      const wire::Json gang = status.value("gang", wire::Json());
      const std::string copy = wire::gang_copy(gang);
      for (const std::string& more :
           {wire::gang_words(gang), copy.empty() ? "" : "the newest copy in memory: " + copy,
            wire::text_field(status, "outlook"), wire::text_field(status, "watcher")})
        if (!more.empty()) says += (says.empty() ? "" : "; ") + more;
    }
    model_.state = std::move(state);
    model_.says = std::move(says);
  }
  // Until when the outcome is known: a silent machine may have trained all the time.
  double last_seen() const {
    const Boot* const boot = boot_to_show(boots_);
    const bool is_silent =
        boot->shown.end == End::Running && input_.now - boot->last_seen > silence;
    return is_silent ? boot->last_seen : input_.now;
  }
  void span() {
    model_.from = input_.now;
    double end = 0;
    for (const Boot& boot : boots_) {
      model_.from = std::min(model_.from, begin_of(boot.shown));
      end = std::max(end, boot.shown.ended.value_or(boot.last_seen));
    }
    const bool over = model_.state == "finished" || model_.state == "gave-up";
    if (over && !boots_.empty()) model_.to = std::max(end, model_.from);
  }

  const Input& input_;
  Model model_;
  std::vector<sweep::Summary> experiments_;
  std::vector<Track> tracks_;
  std::vector<Boot> boots_;
};

}  // namespace

Model build(const Input& input) { return Builder(input).build(); }

std::vector<Instance> instances_of(const Input& input) {
  std::vector<Instance> all;
  for (const Source& source : input.sources)
    for (const Boot& boot : boots_of(source, input.now)) all.push_back(shown_of(boot));
  return all;
}

}  // namespace spotter::report
