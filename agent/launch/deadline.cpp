#include "agent/launch/deadline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "agent/base/text.hpp"
#include "agent/launch/watch_mark.hpp"

namespace spotter::launch {
namespace {

using capacity::Use;
using Trouble = Outlook::Trouble;

constexpr double kUnseen = 1.0 / 60;         // hours: EC2 may show a change so late
constexpr double kUsualInterval = 1.0 / 60;  // between two looks of a watcher
constexpr double kLongestGap = 1;            // between two looks; of a longer one nothing is known
constexpr double kPaceIsKnown = 1.0 / 6;     // after so many hours of training
constexpr double kLeastPart = 0.02;          // of launch.work, when that was too little

constexpr std::array<const char*, 3> use_words{"wait", "spot", "on-demand"};
constexpr std::array<const char*, 3> trouble_words{"none", "late", "budget"};

wire::WallTime later(wire::WallTime from, double hours) {
  constexpr double farthest = 10'000;  // a year, and more than any job has
  return from + std::chrono::seconds(std::lround(std::clamp(hours, 0.0, farthest) * 3600));
}

capacity::Spells spells_at(const Sight& sight) {
  const capacity::Settings usual;
  if (!sight.before) return {usual.available, usual.absent, usual.half_life};
  capacity::Spells spells(sight.before->available, sight.before->absent, usual.half_life,
                          sight.had_spot);
  const double gap = hours_of(sight.now - sight.looked);
  if (gap > 0 && gap <= kLongestGap) spells.pass(gap);
  return spells;
}

std::string left_text(const Remaining& work) {
  return printed("%.0f", work.part * 100) + " % left, about " + printed("%.1f", work.hours) + " h";
}

// Without launch.work, as an agent needs none, by the job's own pace alone.
std::optional<Remaining> known_work(const Progress& progress, const config::Deadline& deadline) {
  if (deadline.work) return work_left(progress, deadline);
  const bool has_pace = progress.trained >= kPaceIsKnown && progress.step + progress.repeated > 0;
  if (progress.total <= 0 || !has_pace) return std::nullopt;
  config::Deadline paced = deadline;
  paced.work = Duration{1};
  return work_left(progress, paced);
}

// The work's hours, with a start unless an instance runs already.
double least_hours(const Prospect& it, bool runs) { return it.work.hours + (runs ? 0 : it.start); }

// A loss of the spot instance would be too late, or it is too late already to leave it.
bool is_stuck(const Prospect& it, const Sight& sight, double time) {
  return sight.runs == Use::Spot && time < it.work.hours + it.start;
}

struct Asked {
  capacity::Choice choice;
  double dollars;         // from now on, on average
  wire::WallTime latest;  // on demand from then on
};

Asked ask(const Prospect& it, const Sight& sight, const capacity::Spells& spells,
          const capacity::ValuesOf& values_of = {}) {
  const double time = hours_of(it.due - sight.now);
  const double kept = it.interval + kUnseen;
  const capacity::Choice choice = capacity::choose(
      spells, sight.spot,
      {.on_demand = it.on_demand, .spot = it.spot, .start = it.start, .tick = it.interval},
      {.work = it.work.hours, .time = time - kept, .use = sight.runs}, values_of);
  const double forced = it.on_demand * least_hours(it, sight.runs == Use::OnDemand);
  return {choice, choice.forced ? forced : choice.expected,
          later(sight.now, time - kept - it.interval - it.start - it.work.hours)};
}

std::optional<double> finite(std::string_view text) {
  const auto value = number_of_text<double>(text);
  return value && *value >= 0 && *value < 1e6 ? value : std::nullopt;
}

struct Pair {
  double one = 0, other = 0;
};
std::optional<Pair> pair_of(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == text.npos) return std::nullopt;
  const auto one = finite(text.substr(0, slash)), other = finite(text.substr(slash + 1));
  if (!one || !other) return std::nullopt;
  return Pair{*one, *other};
}

template <std::size_t count>
std::optional<std::size_t> index_of(const std::array<const char*, count>& all,
                                    const std::string& word) {
  const auto found = std::ranges::find(all, word);
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

constexpr Duration renewed{120'000};
constexpr double much = 3;  // of what a step takes else

}  // namespace

double hours_of(Duration duration) {
  return std::chrono::duration<double>(duration).count() / 3600;
}

Duration start_of(const config::Job& job) {
  const Duration bound =
      job.storage.share ? Duration{} : job.storage.ebs.consistency_bound.value_or(Duration{30'000});
  return job.deadline.start.value_or(usual_start) + 3 * bound;
}

Remaining work_left(const Progress& progress, const config::Deadline& deadline) {
  const double estimate = hours_of(*deadline.work);
  const double least = kLeastPart * estimate;
  if (progress.total <= 0) {
    // Hours count only if what they trained was not lost.
    const double all = progress.step + progress.repeated;
    const double kept = all > 0 ? progress.trained * progress.step / all : progress.trained;
    const double left = std::max(estimate - kept, least);
    return {left, left / estimate};
  }
  const double steps = std::max(progress.total - progress.step, 0.0);
  const double part = std::clamp(steps / progress.total, 0.0, 1.0);
  double hours = estimate * part;
  const double done = progress.step + progress.repeated;
  if (progress.trained >= kPaceIsKnown && done > 0) {
    hours = steps * progress.trained / done;
    if (progress.steps_an_hour > 0) hours = std::max(hours, steps / progress.steps_an_hour);
  }
  // The result is still to be written when the last step is done.
  return {std::max(hours, kUnseen), part};
}

Expectation expect(const Prospect& it, wire::WallTime now, double lasts, double gone) {
  const capacity::Settings usual;
  capacity::Spells spells({usual.available.count, lasts}, {usual.absent.count, gone},
                          usual.half_life);
  spells.see(false);
  const Asked asked = ask(it, {.now = now, .before = {}}, spells);
  return {asked.dollars, asked.latest};
}

Outlook look_ahead(const Prospect& it, const Sight& sight, const capacity::ValuesOf& values_of) {
  capacity::Spells spells = spells_at(sight);
  spells.see(sight.spot);
  const Asked asked = ask(it, sight, spells, values_of);
  Outlook outlook{.choice = asked.choice.use,
                  .work = it.work,
                  .latest = asked.latest,
                  .on_demand = it.on_demand,
                  .spot = it.spot,
                  .zone = it.zone,
                  .available = spells.available(),
                  .absent = spells.absent()};
  const double time = hours_of(it.due - sight.now);
  if (asked.choice.forced && is_stuck(it, sight, time)) outlook.choice = Use::Spot;
  const bool stays = outlook.choice == sight.runs && sight.runs != Use::Nothing;
  if (time < least_hours(it, stays)) outlook.trouble = Trouble::Late;
  if (it.dollars_left && asked.dollars > *it.dollars_left) {
    outlook.trouble = Trouble::Budget;
    if (it.gives_way == config::Deadline::GivesWay::Deadline && outlook.choice == Use::OnDemand)
      outlook.choice = sight.spot ? Use::Spot : Use::Nothing;
  }
  // An on-demand instance that runs already stays.
  const bool is_new = outlook.choice == Use::OnDemand && sight.runs != Use::OnDemand;
  if (it.spent_unknown && is_new && it.gives_way == config::Deadline::GivesWay::Deadline)
    outlook.choice = sight.spot ? Use::Spot : Use::Nothing;
  return outlook;
}

std::string_view words_of(Trouble trouble) {
  if (trouble == Trouble::Late) return "THE DEADLINE CANNOT BE KEPT";
  return trouble == Trouble::Budget ? "NOT BOTH, DEADLINE AND BUDGET, CAN BE KEPT" : "";
}

std::optional<OwnOutlook> own_outlook(const config::Job& job,
                                      const std::optional<Progress>& progress,
                                      double dollars_an_hour, wire::WallTime now) {
  const config::Deadline& deadline = job.deadline;
  if (!deadline.is_set()) return std::nullopt;
  OwnOutlook own{.work = progress ? known_work(*progress, deadline) : std::nullopt,
                 .due = deadline.finish_by,
                 .within = deadline.within,
                 .latest = {}};
  if (!own.work) return own;
  const double work = own.work->hours;
  if (own.due) {
    const double time = hours_of(*own.due - now);
    if (time < work) own.trouble = Trouble::Late;
    const double margins = 2 * kUsualInterval + kUnseen + hours_of(start_of(job));
    if (job.launch && job.launch->on_demand.when == config::OnDemand::When::WhenNeeded)
      own.latest = later(now, time - margins - work);
  }
  if (deadline.dollars && progress->dollars + work * dollars_an_hour > *deadline.dollars)
    own.trouble = Trouble::Budget;
  return own;
}

std::string text_of(const OwnOutlook& it) {
  std::string text = it.due ? "by " + wire::to_rfc3339(*it.due) : "";
  if (it.within)
    text = "within " + printed("%.4g", hours_of(*it.within)) + " h of its first launch";
  if (it.work) text += "; " + left_text(*it.work);
  if (it.latest) text += "; on demand from " + wire::to_rfc3339(*it.latest) + " at the latest";
  if (it.trouble != Trouble::None) text += "; " + std::string(words_of(it.trouble));
  return text;
}

std::string text_of(const Outlook& it) {
  std::string text = left_text(it.work) + "; ";
  text += it.choice == Use::OnDemand
              ? "on demand now"
              : "on demand from " + wire::to_rfc3339(it.latest) + " at the latest";
  if (it.spot > 0 && it.on_demand > 0) {
    const double cheaper = 100 * (1 - it.spot / it.on_demand);
    text += "; spot in " + it.zone + " is " + printed("%.0f", std::abs(cheaper)) +
            (cheaper >= 0 ? " % cheaper" : " % dearer");
    if (it.available.ends > 0)
      text += " and lasted " + printed("%.1f", it.available.hours / it.available.ends) +
              " h on average";
  }
  if (it.trouble != Trouble::None) text += "; " + std::string(words_of(it.trouble));
  return text;
}

std::string tag_of(const Outlook& it) {
  const std::string zone = it.zone.empty() ? "-" : it.zone;
  return std::string("use=") + use_words[static_cast<std::size_t>(it.choice)] +
         " trouble=" + trouble_words[static_cast<std::size_t>(it.trouble)] +
         " left=" + printed("%.2f", it.work.hours).substr(0, 63) + "/" +
         printed("%.3f", it.work.part) + " latest=" + wire::to_rfc3339(it.latest) +
         " dollars=" + printed("%.4g", it.spot) + "/" + printed("%.4g", it.on_demand) +
         " zone=" + zone + " had=" + printed("%.4g", it.available.ends) + "/" +
         printed("%.4g", it.available.hours) + " lacked=" + printed("%.4g", it.absent.ends) + "/" +
         printed("%.4g", it.absent.hours);
}

std::optional<Outlook> outlook_of(std::string_view tag) {
  auto words = words_of_tag(tag);
  const auto use = index_of(use_words, words["use"]);
  const auto trouble = index_of(trouble_words, words["trouble"]);
  const auto left = pair_of(words["left"]), dollars = pair_of(words["dollars"]);
  const auto had = pair_of(words["had"]), lacked = pair_of(words["lacked"]);
  const auto latest = wire::parse_rfc3339(words["latest"]);
  if (!use || !trouble || !left || !dollars || !had || !lacked || !latest) return std::nullopt;
  // The rates of the planner are one by the other.
  if (had->one <= 0 || had->other <= 0 || lacked->one <= 0 || lacked->other <= 0)
    return std::nullopt;
  return Outlook{.choice = static_cast<Use>(*use),
                 .trouble = static_cast<Trouble>(*trouble),
                 .work = {left->one, left->other},
                 .latest = *latest,
                 .on_demand = dollars->other,
                 .spot = dollars->one,
                 .zone = words["zone"] == "-" ? "" : words["zone"],
                 .available = {had->one, had->other},
                 .absent = {lacked->one, lacked->other}};
}

std::optional<Published> of_this_run(std::optional<Published> published) {
  if (published && published->stage == "finished") published.reset();
  return published;
}

Remaining work_of(const config::Deadline& deadline, const std::optional<Published>& published,
                  const std::optional<Outlook>& before, double since) {
  const Progress progress = published ? published->progress : Progress{};
  const Remaining left = work_left(progress, deadline);
  if (progress.total > 0 || !before) return left;
  if (!published || published->stage != "training") return before->work;
  const double least = work_left({.trained = 1e9}, deadline).hours;
  const double hours = std::max(before->work.hours - std::max(since, 0.0), least);
  // By launch.work less the hours trained it may be far more, or less, than by the pace until now.
  if (published->has_step && left.hours > hours) return left;
  const double part = before->work.hours > 0 ? hours / before->work.hours : 1;
  return {hours, std::min(1.0, before->work.part * part)};
}

void keep_prices(Prospect& prospect, KnownPrices known, const std::optional<Outlook>& before) {
  if (!before) return;
  if (!known.on_demand && before->on_demand > 0) prospect.on_demand = before->on_demand;
  if (known.spot || before->spot <= 0) return;
  prospect.spot = before->spot;
  prospect.zone = before->zone;
}

double StepPace::Stretch::per_step() const {
  return std::chrono::duration<double>(time).count() / static_cast<double>(steps);
}

StepPace::Stretch StepPace::between(const Mark& from, const Mark& to) {
  return {to.step - from.step, to.at - from.at};
}

void StepPace::observe(std::uint64_t step, Time now) {
  const Mark mark{step, now};
  if (!older_ || step < last_.step) {  // it began again at an earlier step
    older_ = newer_ = last_ = mark;
    slowest_ = slowest_of_newer_ = {};
    return;
  }
  if (step == last_.step) return;  // of the same step again
  const Stretch stretch = between(last_, mark);
  last_ = mark;
  for (Stretch* slowest : {&slowest_, &slowest_of_newer_})
    if (slowest->steps == 0 || stretch.per_step() > slowest->per_step()) *slowest = stretch;
  if (now - newer_.at < renewed) return;
  older_ = newer_;
  newer_ = mark;
  slowest_ = slowest_of_newer_;
  slowest_of_newer_ = {};
}

std::optional<double> StepPace::per_second() const {
  if (!older_ || last_.step <= older_->step || last_.at <= older_->at) return std::nullopt;
  const Stretch all = between(*older_, last_);
  const Stretch others{all.steps - slowest_.steps, all.time - slowest_.time};
  const bool paused = others.steps > 0 && others.steps >= slowest_.steps &&
                      others.time > Duration{} && slowest_.per_step() > much * others.per_step();
  return 1 / (paused ? others : all).per_step();
}

}  // namespace spotter::launch
