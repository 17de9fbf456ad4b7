#include "agent/report/lives.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

namespace spotter::report {
namespace {

using End = Instance::End;
using wire::Moment;

// More than clocks are corrected by as a matter of course.
constexpr double set_back = 120;
// Past its deadline a notice may stay where it was not kept; a machine that still trains then was
// not interrupted.
constexpr double void_after = 300;

Count count(const Moment& moment, const char* name) {
  const auto value = moment.number(name);
  constexpr double largest = 1e12;  // of which all may be added up
  if (!value || *value < 0 || *value > largest) return std::nullopt;
  return std::llround(*value);
}

// Of what no sane machine says nothing is known.
constexpr double largest_amount = 1e15;
Number at_least_zero(Number value) {
  return value && (*value < 0 || *value > largest_amount) ? Number() : value;
}

// Around a moment's own time.
Number time_near(const Moment& moment, const char* name) {
  constexpr double longest = 10 * 365 * 86'400.0;
  const auto time = moment.number(name);
  return time && std::abs(*time - moment.time) < longest ? time : Number();
}

void close_phase(Instance& shown, double at) {
  if (shown.phases.empty() || shown.phases.back().to) return;
  Instance::Phase& open = shown.phases.back();
  open.to = std::max(at, open.from);
}

class Lives {
 public:
  explicit Lives(Experiment experiment) : experiment_(experiment) {}

  void add(const Moment& moment) {
    const auto known = open_.find(moment.instance);
    const bool is_new = known == open_.end() || is_another_boot(all_[known->second], moment);
    const bool slept = is_new && known != open_.end() && hibernated(all_[known->second]);
    if (is_new) {
      open_[moment.instance] = all_.size();
      all_.emplace_back();
      all_.back().shown.id = moment.instance;
      all_.back().shown.experiment = experiment_;
      all_.back().shown.began = moment.time;
    }
    Life& life = all_[open_[moment.instance]];
    life.clock_set = life.clock_set || moment.time < life.heard - set_back;
    life.heard = std::max(life.heard, moment.time);
    tell(life, moment);
    if (slept) life.shown.booted.reset();  // what was before the sleep is the other life's
  }
  std::vector<Life> take() { return std::move(all_); }

 private:
  static bool hibernated(const Life& life) {
    return life.notice && life.notice->action == "hibernate";
  }
  // A stopped instance keeps its name, and one that hibernates, or was spared, even its boot.
  static bool is_another_boot(const Life& life, const Moment& moment) {
    if (moment.what != "began") return false;
    const Number booted = time_near(moment, "booted");
    if (booted && life.shown.booted)
      if (std::abs(*booted - *life.shown.booted) > same_boot) return true;
    if (!life.notice) return false;
    const bool let_go = !life.shown.phases.empty() && life.shown.phases.back().phase == "released";
    const bool sleeps = life.notice->action != "terminate" || let_go;
    return sleeps && moment.time > life.notice->deadline.value_or(life.heard);
  }

  void tell(Life& life, const Moment& moment) {
    using Teller = void (*)(Life&, const Moment&);
    static const std::map<std::string, Teller, std::less<>> tellers = {
        {"began", began},        {"price", price},
        {"phase", phase},        {"notice", notice},
        {"resumed", resumed},    {"checkpoint", checkpoint},
        {"ended", ended},        {"volume", volume},
        {"account", account},    {"notice-withdrawn", withdrawn},
        {"problem", problem},    {"left", left},
        {"rebalance", rebalance}};
    const auto teller = tellers.find(moment.what);
    if (teller != tellers.end()) teller->second(life, moment);
  }

  static void note(Life& life, const Moment& moment, std::string words) {
    life.journal.push_back({moment.time, moment.instance, "info", moment.what, std::move(words)});
  }
  static std::string step_of(const Moment& moment) {
    const Count step = count(moment, "step");
    return step ? " at step " + std::to_string(*step) : "";
  }

  static void began(Life& life, const Moment& moment) {
    Instance& shown = life.shown;
    if (const auto type = moment.text("type"); !type.empty()) shown.type = type;
    if (const auto zone = moment.text("zone"); !zone.empty()) shown.zone = zone;
    if (const Number booted = time_near(moment, "booted")) shown.booted = booted;
    if (const Number price = at_least_zero(moment.number("price"))) shown.price = price;
    life.left.clear();  // an agent that is started again
    note(life, moment,
         "the agent began on " + (shown.type.empty() ? "a machine" : shown.type) +
             (shown.zone.empty() ? "" : " in " + shown.zone));
  }
  static void price(Life& life, const Moment& moment) {
    if (const Number price = at_least_zero(moment.number("dollars_per_hour")))
      life.shown.price = price;
  }
  static void phase(Life& life, const Moment& moment) {
    const std::string name = moment.text("phase");
    if (name.empty()) return;
    close_phase(life.shown, moment.time);
    const double from = life.shown.phases.empty() ? moment.time : *life.shown.phases.back().to;
    life.shown.phases.push_back({name, std::max(from, moment.time), {}});
    life.says = moment.text("says");
    if (!life.says.empty()) note(life, moment, life.says);
  }
  static void notice(Life& life, const Moment& moment) {
    const Notice seen{moment.time, moment.text("action"), time_near(moment, "deadline")};
    if (life.notice) {  // told again, perhaps with more
      if (!seen.action.empty()) life.notice->action = seen.action;
      if (seen.deadline) life.notice->deadline = seen.deadline;
    } else {
      life.notice = seen;
    }
    if (life.notice->action.empty()) life.notice->action = "terminate";
    std::string words = "notice: " + life.notice->action;
    if (seen.deadline)
      words += " in " + std::to_string(std::llround(between(moment.time, *seen.deadline))) + " s";
    note(life, moment, words);
  }
  static void withdrawn(Life& life, const Moment& moment) {
    life.notice.reset();
    note(life, moment, "the notice was withdrawn");
  }
  static void rebalance(Life& life, const Moment& moment) {
    note(life, moment, "a rebalance recommendation");
  }
  static void resumed(Life& life, const Moment& moment) {
    life.resumed.push_back({moment.time, count(moment, "step"), count(moment, "repeated")});
    const Count again = life.resumed.back().repeated;
    note(life, moment,
         "training goes on" + step_of(moment) +
             (again && *again > 0 ? ", " + std::to_string(*again) + " steps again" : ""));
  }
  static void checkpoint(Life& life, const Moment& moment) {
    life.checkpoints.push_back({moment.time, count(moment, "step"),
                                at_least_zero(moment.number("seconds")),
                                at_least_zero(moment.number("bytes"))});
  }
  static void ended(Life& life, const Moment& moment) {
    life.ended.push_back({moment.time, moment.text("end"), count(moment, "step"),
                          count(moment, "checkpoint_step"),
                          at_least_zero(moment.number("stall_seconds")),
                          at_least_zero(moment.number("trained_seconds")),
                          at_least_zero(moment.number("window_trained"))});
    const std::string& how = life.ended.back().how;
    note(life, moment, "the trainer " + (how.empty() ? "ended" : how) + step_of(moment));
  }
  static void volume(Life& life, const Moment& moment) {
    VolumeChange change{moment.time, moment.text("change"), moment.text("volume"),
                        moment.text("snapshot"), moment.text("zone")};
    if (change.zone.empty()) change.zone = life.shown.zone;
    note(life, moment,
         change.change + (change.volume.empty() ? "" : " " + change.volume) +
             (change.snapshot.empty() ? "" : " " + change.snapshot));
    life.volumes.push_back(std::move(change));
  }
  static void account(Life& life, const Moment& moment) {
    if (const Number dollars = at_least_zero(moment.number("dollars")))
      life.spent_dollars = dollars;
  }
  static void problem(Life& life, const Moment& moment) {
    life.journal.push_back({moment.time, moment.instance, moment.text("level"),
                            moment.text("event"), moment.text("words")});
  }
  static void left(Life& life, const Moment& moment) {
    const std::string why = moment.text("why");
    life.left = why.empty() ? "asked" : why;
    note(life, moment, "the agent left the machine: " + life.left);
  }

  Experiment experiment_;
  std::vector<Life> all_;
  std::map<std::string, std::size_t> open_;
};

std::string last_phase(const Life& life) {
  return life.shown.phases.empty() ? "" : life.shown.phases.back().phase;
}

// What is kept on the volume ends before the volume is let go of.
bool ended_by(const Life& life, std::string_view how) {
  if (life.ended.empty() || life.ended.back().how != how) return false;
  return life.resumed.empty() || life.resumed.back().time <= life.ended.back().time;
}
bool ended_well(const Life& life) { return ended_by(life, "finished"); }
bool stopped_as_asked(const Life& life) { return ended_by(life, "stopped"); }

End end_of_one_that_left(const Life& life) {
  // The machine is ended by the fleet's end, which its own agent brings about.
  if (life.left == "finished" || ended_well(life)) return End::Finished;
  if (life.left == "gave-up") return End::Failed;
  return life.notice ? End::Interrupted : End::Left;
}

End end_of_silence(const Life& life, bool succeeded, bool followed, double now) {
  const std::string phase = last_phase(life);
  if (phase == "finished" || ended_well(life)) return End::Finished;
  if (phase == "gave-up") return End::Failed;
  if (life.notice) {
    const double deadline = life.notice->deadline.value_or(life.heard);
    return succeeded || now > std::max(deadline, life.heard) ? End::Interrupted : End::Running;
  }
  // Asked to stop, it says that it leaves when the storage is gone already.
  if (succeeded && stopped_as_asked(life)) return End::Left;
  if (succeeded) return End::Lost;
  return followed && now - life.heard > silence ? End::Lost : End::Running;
}

// A notice that was not kept.
void forget_void_notice(Life& life) {
  if (!life.notice || !life.notice->deadline || !life.left.empty()) return;
  if (life.heard > *life.notice->deadline + void_after) life.notice.reset();
}

// A trainer that knows nothing of us does not say from where it goes on.
void believe_resumed(Life& life) {
  if (!life.resumed.empty()) return;
  for (const Instance::Phase& each : life.shown.phases)
    if (each.phase == "training") return life.resumed.push_back({each.from, {}, {}});
}

void settle(Life& life, bool succeeded, bool followed, double now) {
  forget_void_notice(life);
  Instance& shown = life.shown;
  shown.end = life.left.empty() ? end_of_silence(life, succeeded, followed, now)
                                : end_of_one_that_left(life);
  if (shown.end == End::Running) {
    if (now - life.heard > silence) close_phase(shown, life.heard);
    return;
  }
  double end = life.heard;
  // The machine is there until EC2 ends it.
  if (shown.end == End::Interrupted && life.notice->deadline)
    end = std::max(end, *life.notice->deadline);
  shown.ended = std::max(end, shown.began);
  close_phase(shown, *shown.ended);
}

// Its curve has heard of a machine after its last moment: whoever went on last was training then.
void hear_curve(std::vector<Life>& all, const wire::Curve& curve, double now) {
  struct Holder {
    double since;
    Life* life;
  };
  std::vector<Holder> holders;
  for (Life& life : all)
    for (const Resumed& each : life.resumed) holders.push_back({each.time, &life});
  std::ranges::stable_sort(holders, {}, &Holder::since);
  for (const wire::CurvePoint& point : curve.points()) {
    const auto after = std::ranges::upper_bound(holders, point.time, {}, &Holder::since);
    if (after == holders.begin() || point.time > now) continue;
    Life& life = *std::prev(after)->life;
    if (life.left.empty()) life.heard = std::max(life.heard, point.time);
  }
}

}  // namespace

std::string number_text(const char* format, double value) {
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

bool Life::took_over() const {
  static constexpr std::array<std::string_view, 5> with_storage = {
      "moving", "mounting", "preparing", "training", "finishing"};
  return !resumed.empty() || std::ranges::any_of(shown.phases, [](const Instance::Phase& each) {
    return std::ranges::find(with_storage, each.phase) != with_storage.end();
  });
}

bool Life::trained_at(double time) const {
  for (auto each = shown.phases.rbegin(); each != shown.phases.rend(); ++each)
    if (each->from <= time) return each->phase == "training" || each->phase == "stopping";
  return !resumed.empty() && resumed.front().time <= time;
}

std::vector<Life> lives_of(const Source& source, double now) {
  Lives lives(source.experiment);
  for (const Moment& moment : source.history.moments) lives.add(moment);
  std::vector<Life> all = lives.take();
  // Of one that went on after its notice the second life is told behind the first.
  std::ranges::stable_sort(all, {}, [](const Life& life) { return life.shown.began; });
  for (Life& life : all) {
    believe_resumed(life);
    const auto reached = source.reached.find(life.shown.id);
    const auto boots = std::ranges::count_if(
        all, [&](const Life& other) { return other.shown.id == life.shown.id; });
    if (reached != source.reached.end() && boots == 1) life.reached = reached->second;
  }
  hear_curve(all, source.curve, now);
  bool succeeded = false;
  for (std::size_t i = all.size(); i-- > 0;) {
    const bool takes_over = all[i].took_over();
    settle(all[i], succeeded, i + 1 < all.size(), now);
    succeeded = succeeded || takes_over;
  }
  return all;
}

}  // namespace spotter::report
