// launch.on_demand: when-needed. Decides what a job with a deadline is to run on, by what AWS and
// its agent show of it: asks capacity/planner.hpp, with margins for all that a look cannot see. In
// hours and dollars. Pure.
//
// To the planner a job's fleet is one: EC2 chooses among the types and zones. The time left is
// shortened by the interval between looks (a loss right after one is seen at the next) and by a
// minute (EC2 may show an old state for as long). The work left counts from the newest durable
// checkpoint: what a loss would destroy is still to be done.
#pragma once

#include "agent/base/names.hpp"
#include "agent/capacity/planner.hpp"
#include "agent/config/job.hpp"

namespace spotter::launch {

double hours_of(Duration duration);

// From the request to the first new step, unless job.yaml says otherwise.
inline constexpr std::chrono::minutes usual_start{15};
Duration start_of(const config::Job& job);  // with the waits of a move to another zone

// The job's progress, as its agent published it last.
struct Progress {
  double step = 0;           // of the newest durable checkpoint
  double total = 0;          // steps; 0: the trainer says none
  double repeated = 0;       // steps that were trained twice
  double trained = 0;        // hours, on all machines
  double steps_an_hour = 0;  // lately; 0: it trains nowhere
  double dollars = 0;        // spent
};

struct Remaining {
  double hours = 0;
  double part = 1;  // of the whole
  bool operator==(const Remaining&) const = default;
};
// By the slower of the pace over all and lately, once ten minutes were trained; before, and without
// a total, by launch.work. Never 0 while the job is not done. REQUIRES: launch.work.
Remaining work_left(const Progress& progress, const config::Deadline& deadline);

// The planner's input at one look.
struct Prospect {
  wire::WallTime due{};
  Remaining work;
  double start = 0.25;
  double interval = 1.0 / 6;  // until the next look
  double on_demand = 0;       // dollars an hour
  double spot = 0;            // of the cheapest pool
  std::string zone;           // that pool's
  std::optional<double> dollars_left;
  bool spent_unknown = false;  // there is a budget, but what is spent of it could not be read
  config::Deadline::GivesWay gives_way = config::Deadline::GivesWay::Deadline;
};

// The choice that follows from a look.
struct Outlook {
  enum class Trouble : std::uint8_t { None, Late, Budget };
  capacity::Use choice = capacity::Use::Nothing;
  Trouble trouble = Trouble::None;  // the deadline, or the budget beside it, cannot be kept
  Remaining work;
  wire::WallTime latest{};  // on demand from then on, if no spot instance comes
  double on_demand = 0, spot = 0;
  std::string zone;
  capacity::Seen available, absent;  // of spot instances

  bool operator==(const Outlook&) const = default;
};

// The instances at a look and at the one before.
struct Sight {
  wire::WallTime now{};
  capacity::Use runs = capacity::Use::Nothing;
  bool spot = false;  // a spot instance is there, whatever else runs
  std::optional<Outlook> before;
  wire::WallTime looked{};  // before
  bool had_spot = false;    // before
};
// `values_of`: for many looks one after the other, as tests play them.
Outlook look_ahead(const Prospect& prospect, const Sight& sight,
                   const capacity::ValuesOf& values_of = {});

// The expected cost of a job that is launched now, before any spot capacity is seen: it is assumed
// to last for `lasts` hours, and to be gone for `gone` hours, at a time.
struct Expectation {
  double dollars = 0;       // on average
  wire::WallTime latest{};  // on demand from then on, if no spot instance comes
};
Expectation expect(const Prospect& prospect, wire::WallTime now, double lasts, double gone);

// "34 % left; on demand from 2026-12-03T21:10:00Z at the latest; spot in us-west-2b is 61 % cheaper
// and lasted 5.2 h on average", and what cannot be kept.
std::string text_of(const Outlook& outlook);

// The deadline as an instance's agent sees it without asking AWS: by the steps that it counts, and
// at the price of its own machine. The watcher knows more.
struct OwnOutlook {
  Outlook::Trouble trouble = Outlook::Trouble::None;
  std::optional<Remaining> work;      // none: there is no pace yet
  std::optional<wire::WallTime> due;  // none: `within`, as no instance knows the first launch
  std::optional<Duration> within;
  std::optional<wire::WallTime> latest;  // on demand from then on; of `when-needed`
};
// `progress`: none: this machine trains nothing yet. None: the job has no deadline.
std::optional<OwnOutlook> own_outlook(const config::Job& job,
                                      const std::optional<Progress>& progress,
                                      double dollars_an_hour, wire::WallTime now);
// "by 2026-12-04T18:00:00Z; 34 % left, about 5.2 h; on demand from ... at the latest"
std::string text_of(const OwnOutlook& outlook);
// "the deadline cannot be kept"; empty: it can.
std::string_view words_of(Outlook::Trouble trouble);

// The words of a tag: letters, digits and +-=._:/@ only, since a group's tags allow no others.
std::string tag_of(const Outlook& outlook);
std::optional<Outlook> outlook_of(std::string_view tag);

// Fills in what a watcher cannot learn now: by the look before, or else by a guess. Pure.

// The newest publication of an agent of the job.
struct Published {
  Progress progress;
  std::string stage;      // decide::name() of it
  bool has_step = false;  // the trainer has said a step since it began
  InstanceId instance = {};
  std::optional<wire::WallTime> at = {};  // by AWS's clock
};

// None: it is of an earlier run, which has finished. REQUIRES: the job is not done.
std::optional<Published> of_this_run(std::optional<Published> published);

// The work left, `since` hours after the look before. A trainer that has just begun has said
// neither step nor total yet. REQUIRES: deadline.work.
Remaining work_of(const config::Deadline& deadline, const std::optional<Published>& published,
                  const std::optional<Outlook>& before, double since);

// Tells the prices of a prospect that AWS has said from those that are guesses.
struct KnownPrices {
  bool on_demand = true, spot = true;
};
void keep_prices(Prospect& prospect, KnownPrices known, const std::optional<Outlook>& before);

// The trainer's speed over its last two to four minutes, by the steps that it reports. Pure.
//
// A pause (an evaluation, a checkpoint that holds training up, hibernation) is none of it: within
// so short a time it would make what is left of the work look several times as long. Pauses that
// come again and again are in the pace over all.

class StepPace {
 public:
  void observe(std::uint64_t step, Time now);
  std::optional<double> per_second() const;

 private:
  struct Mark {
    std::uint64_t step = 0;
    Time at{};
  };
  // The steps and the time between two reports.
  struct Stretch {
    std::uint64_t steps = 0;
    Duration time{};
    double per_step() const;  // REQUIRES: steps > 0
  };
  static Stretch between(const Mark& from, const Mark& to);

  std::optional<Mark> older_;
  Mark newer_, last_;
  Stretch slowest_, slowest_of_newer_;  // since older_, and since newer_; no steps: none yet
};

}  // namespace spotter::launch
