#include "agent/report/boots.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace spotter::report {
namespace {

using End = Instance::End;
using wire::HistoryEntry;

// More than a usual correction of a clock.
constexpr double set_back = 120;
// If a machine still trains so long after its deadline, the notice was not carried out and the
// machine was not interrupted.
constexpr double void_after = 300;

Count count(const HistoryEntry& entry, const char* name) {
  const auto value = entry.number(name);
  constexpr double largest = 1e12;  // so that sums stay finite
  if (!value || *value < 0 || *value > largest) return std::nullopt;
  return std::llround(*value);
}

// Amounts that no machine can have count as unknown.
constexpr double largest_amount = 1e15;
Number at_least_zero(Number value) {
  return value && (*value < 0 || *value > largest_amount) ? Number() : value;
}

// None: the time is too far from the entry's own.
Number time_near(const HistoryEntry& entry, const char* name) {
  constexpr double longest = 10 * 365 * 86'400.0;
  const auto time = entry.number(name);
  return time && std::abs(*time - entry.time) < longest ? time : Number();
}

void close_phase(Instance& shown, double at) {
  if (shown.phases.empty() || shown.phases.back().to) return;
  Instance::Phase& open = shown.phases.back();
  open.to = std::max(at, open.from);
}

class Boots {
 public:
  explicit Boots(Experiment experiment) : experiment_(experiment) {}

  void add(const HistoryEntry& entry) {
    const auto known = open_.find(entry.instance);
    const bool is_new = known == open_.end() || is_another_boot(all_[known->second], entry);
    const bool slept = is_new && known != open_.end() && hibernated(all_[known->second]);
    if (is_new) {
      open_[entry.instance] = all_.size();
      all_.emplace_back();
      all_.back().shown.id = entry.instance;
      all_.back().shown.experiment = experiment_;
      all_.back().shown.began = entry.time;
    }
    Boot& boot = all_[open_[entry.instance]];
    boot.clock_set = boot.clock_set || entry.time < boot.last_seen - set_back;
    boot.last_seen = std::max(boot.last_seen, entry.time);
    apply(boot, entry);
    if (slept) boot.shown.booted.reset();  // the time before the sleep belongs to the other boot
  }
  std::vector<Boot> take() { return std::move(all_); }

 private:
  static bool hibernated(const Boot& boot) {
    return boot.notice && boot.notice->action == "hibernate";
  }
  // A stopped instance keeps its id; one that hibernates, or was spared, even its boot.
  static bool is_another_boot(const Boot& boot, const HistoryEntry& entry) {
    if (entry.what != "began") return false;
    const Number booted = time_near(entry, "booted");
    if (booted && boot.shown.booted)
      if (std::abs(*booted - *boot.shown.booted) > same_boot) return true;
    if (!boot.notice) return false;
    const bool released =
        !boot.shown.phases.empty() && boot.shown.phases.back().phase == "released";
    const bool sleeps = boot.notice->action != "terminate" || released;
    return sleeps && entry.time > boot.notice->deadline.value_or(boot.last_seen);
  }

  void apply(Boot& boot, const HistoryEntry& entry) {
    using Apply = void (*)(Boot&, const HistoryEntry&);
    static const std::map<std::string, Apply, std::less<>> by_name = {
        {"began", began},        {"price", price},
        {"phase", phase},        {"notice", notice},
        {"resumed", resumed},    {"checkpoint", checkpoint},
        {"ended", ended},        {"volume", volume},
        {"account", account},    {"notice-withdrawn", withdrawn},
        {"problem", problem},    {"left", left},
        {"rebalance", rebalance}};
    const auto found = by_name.find(entry.what);
    if (found != by_name.end()) found->second(boot, entry);
  }

  static void note(Boot& boot, const HistoryEntry& entry, std::string words) {
    boot.journal.push_back({entry.time, entry.instance, "info", entry.what, std::move(words)});
  }
  static std::string step_of(const HistoryEntry& entry) {
    const Count step = count(entry, "step");
    return step ? " at step " + std::to_string(*step) : "";
  }

  static void began(Boot& boot, const HistoryEntry& entry) {
    Instance& shown = boot.shown;
    if (const auto type = entry.text("type"); !type.empty()) shown.type = type;
    if (const auto zone = entry.text("zone"); !zone.empty()) shown.zone = zone;
    if (const Number booted = time_near(entry, "booted")) shown.booted = booted;
    if (const Number price = at_least_zero(entry.number("price"))) shown.price = price;
    boot.left.clear();  // an agent that was started again
    note(boot, entry,
         "the agent began on " + (shown.type.empty() ? "a machine" : shown.type) +
             (shown.zone.empty() ? "" : " in " + shown.zone));
  }
  static void price(Boot& boot, const HistoryEntry& entry) {
    if (const Number price = at_least_zero(entry.number("dollars_per_hour")))
      boot.shown.price = price;
  }
  static void phase(Boot& boot, const HistoryEntry& entry) {
    const std::string name = entry.text("phase");
    if (name.empty()) return;
    close_phase(boot.shown, entry.time);
    const double from = boot.shown.phases.empty() ? entry.time : *boot.shown.phases.back().to;
    boot.shown.phases.push_back({name, std::max(from, entry.time), {}});
    boot.says = entry.text("says");
    if (!boot.says.empty()) note(boot, entry, boot.says);
  }
  static void notice(Boot& boot, const HistoryEntry& entry) {
    const Notice seen{entry.time, entry.text("action"), time_near(entry, "deadline")};
    if (boot.notice) {  // repeated, perhaps with more details
      if (!seen.action.empty()) boot.notice->action = seen.action;
      if (seen.deadline) boot.notice->deadline = seen.deadline;
    } else {
      boot.notice = seen;
    }
    if (boot.notice->action.empty()) boot.notice->action = "terminate";
    std::string words = "notice: " + boot.notice->action;
    if (seen.deadline)
      words += " in " + std::to_string(std::llround(between(entry.time, *seen.deadline))) + " s";
    note(boot, entry, words);
  }
  static void withdrawn(Boot& boot, const HistoryEntry& entry) {
    boot.notice.reset();
    note(boot, entry, "the notice was withdrawn");
  }
  static void rebalance(Boot& boot, const HistoryEntry& entry) {
    note(boot, entry, "a rebalance recommendation");
  }
  static void resumed(Boot& boot, const HistoryEntry& entry) {
    boot.resumed.push_back({entry.time, count(entry, "step"), count(entry, "repeated")});
    const Count again = boot.resumed.back().repeated;
    note(boot, entry,
         "training goes on" + step_of(entry) +
             (again && *again > 0 ? ", " + std::to_string(*again) + " steps again" : ""));
  }
  static void checkpoint(Boot& boot, const HistoryEntry& entry) {
    boot.checkpoints.push_back({entry.time, count(entry, "step"),
                                at_least_zero(entry.number("seconds")),
                                at_least_zero(entry.number("bytes"))});
  }
  static void ended(Boot& boot, const HistoryEntry& entry) {
    boot.ended.push_back({entry.time, entry.text("end"), count(entry, "step"),
                          count(entry, "checkpoint_step"),
                          at_least_zero(entry.number("stall_seconds")),
                          at_least_zero(entry.number("trained_seconds")),
                          at_least_zero(entry.number("window_trained"))});
    const std::string& how = boot.ended.back().how;
    note(boot, entry, "the trainer " + (how.empty() ? "ended" : how) + step_of(entry));
  }
  static void volume(Boot& boot, const HistoryEntry& entry) {
    VolumeChange change{entry.time, entry.text("change"), entry.text("volume"),
                        entry.text("snapshot"), entry.text("zone")};
    if (change.zone.empty()) change.zone = boot.shown.zone;
    note(boot, entry,
         change.change + (change.volume.empty() ? "" : " " + change.volume) +
             (change.snapshot.empty() ? "" : " " + change.snapshot));
    boot.volumes.push_back(std::move(change));
  }
  static void account(Boot& boot, const HistoryEntry& entry) {
    if (const Number dollars = at_least_zero(entry.number("dollars"))) boot.spent_dollars = dollars;
    if (const Number writes = at_least_zero(entry.number("s3_writes"))) boot.s3_writes = writes;
    if (const Number reads = at_least_zero(entry.number("s3_reads"))) boot.s3_reads = reads;
  }
  static void problem(Boot& boot, const HistoryEntry& entry) {
    boot.journal.push_back({entry.time, entry.instance, entry.text("level"), entry.text("event"),
                            entry.text("words")});
  }
  static void left(Boot& boot, const HistoryEntry& entry) {
    const std::string why = entry.text("why");
    boot.left = why.empty() ? "asked" : why;
    note(boot, entry, "the agent left the machine: " + boot.left);
  }

  Experiment experiment_;
  std::vector<Boot> all_;
  std::map<std::string, std::size_t> open_;
};

std::string last_phase(const Boot& boot) {
  return boot.shown.phases.empty() ? "" : boot.shown.phases.back().phase;
}

// A trainer on the volume ends before the volume is released.
bool ended_by(const Boot& boot, std::string_view how) {
  if (boot.ended.empty() || boot.ended.back().how != how) return false;
  return boot.resumed.empty() || boot.resumed.back().time <= boot.ended.back().time;
}
bool ended_well(const Boot& boot) { return ended_by(boot, "finished"); }
bool stopped_as_asked(const Boot& boot) { return ended_by(boot, "stopped"); }

End end_after_leaving(const Boot& boot) {
  // The end of the fleet, by its own agent, ends the machine.
  if (boot.left == "finished" || ended_well(boot)) return End::Finished;
  if (boot.left == "gave-up") return End::Failed;
  return boot.notice ? End::Interrupted : End::Left;
}

End end_of_silence(const Boot& boot, bool succeeded, bool followed, double now) {
  const std::string phase = last_phase(boot);
  if (phase == "finished" || ended_well(boot)) return End::Finished;
  if (phase == "gave-up") return End::Failed;
  if (boot.notice) {
    const double deadline = boot.notice->deadline.value_or(boot.last_seen);
    return succeeded || now > std::max(deadline, boot.last_seen) ? End::Interrupted : End::Running;
  }
  // An agent that is asked to stop records its leaving only after the storage is gone.
  if (succeeded && stopped_as_asked(boot)) return End::Left;
  if (succeeded) return End::Lost;
  return followed && now - boot.last_seen > silence ? End::Lost : End::Running;
}

// Removes a notice that was not carried out.
void forget_void_notice(Boot& boot) {
  if (!boot.notice || !boot.notice->deadline || !boot.left.empty()) return;
  if (boot.last_seen > *boot.notice->deadline + void_after) boot.notice.reset();
}

// A trainer without libspotter does not report the step that it continues from.
void assume_resumed(Boot& boot) {
  if (!boot.resumed.empty()) return;
  for (const Instance::Phase& each : boot.shown.phases)
    if (each.phase == "training") return boot.resumed.push_back({each.from, {}, {}});
}

void settle(Boot& boot, bool succeeded, bool followed, double now) {
  forget_void_notice(boot);
  Instance& shown = boot.shown;
  shown.end =
      boot.left.empty() ? end_of_silence(boot, succeeded, followed, now) : end_after_leaving(boot);
  if (shown.end == End::Running) {
    if (now - boot.last_seen > silence) close_phase(shown, boot.last_seen);
    return;
  }
  double end = boot.last_seen;
  // The machine exists until EC2 ends it.
  if (shown.end == End::Interrupted && boot.notice->deadline)
    end = std::max(end, *boot.notice->deadline);
  shown.ended = std::max(end, shown.began);
  close_phase(shown, *shown.ended);
}

// The curve may have points after a machine's last entry: the last one to resume was training then.
void extend_by_curve(std::vector<Boot>& all, const wire::Curve& curve, double now) {
  struct Holder {
    double since;
    Boot* boot;
  };
  std::vector<Holder> holders;
  for (Boot& boot : all)
    for (const Resumed& each : boot.resumed) holders.push_back({each.time, &boot});
  std::ranges::stable_sort(holders, {}, &Holder::since);
  for (const wire::CurvePoint& point : curve.points()) {
    const auto after = std::ranges::upper_bound(holders, point.time, {}, &Holder::since);
    if (after == holders.begin() || point.time > now) continue;
    Boot& boot = *std::prev(after)->boot;
    if (boot.left.empty()) boot.last_seen = std::max(boot.last_seen, point.time);
  }
}

}  // namespace

bool Boot::took_over() const {
  static constexpr std::array<std::string_view, 5> with_storage = {
      "moving", "mounting", "preparing", "training", "finishing"};
  return !resumed.empty() || std::ranges::any_of(shown.phases, [](const Instance::Phase& each) {
    return std::ranges::find(with_storage, each.phase) != with_storage.end();
  });
}

bool Boot::trained_at(double time) const {
  for (auto each = shown.phases.rbegin(); each != shown.phases.rend(); ++each)
    if (each->from <= time) return each->phase == "training" || each->phase == "stopping";
  return !resumed.empty() && resumed.front().time <= time;
}

std::vector<Boot> boots_of(const Source& source, double now) {
  Boots boots(source.experiment);
  for (const HistoryEntry& entry : source.history.entries) boots.add(entry);
  std::vector<Boot> all = boots.take();
  // If a machine went on after its notice, its second boot comes after the first.
  std::ranges::stable_sort(all, {}, [](const Boot& boot) { return boot.shown.began; });
  for (Boot& boot : all) {
    assume_resumed(boot);
    const auto reached = source.reached.find(boot.shown.id);
    const auto boots = std::ranges::count_if(
        all, [&](const Boot& other) { return other.shown.id == boot.shown.id; });
    if (reached != source.reached.end() && boots == 1) boot.reached = reached->second;
  }
  extend_by_curve(all, source.curve, now);
  bool succeeded = false;
  for (std::size_t i = all.size(); i-- > 0;) {
    const bool takes_over = all[i].took_over();
    settle(all[i], succeeded, i + 1 < all.size(), now);
    succeeded = succeeded || takes_over;
  }
  return all;
}

}  // namespace spotter::report
