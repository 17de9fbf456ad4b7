// A bucket, a network and machines that are interrupted, on virtual time: what many Claimants live
// in. Everything that happens is drawn from one seed. It stops at the first broken promise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>

#include "agent/sweep/asha.hpp"
#include "agent/sweep/claimant.hpp"

namespace spotter::sweep {

using Moment = std::int64_t;  // ms of true time
inline constexpr Moment longest_trouble = 10 * 60'000;

struct Troubles {
  double lost_requests = 0;     // share of requests that never arrive
  double lost_answers = 0;      // that are done, and nobody hears of it
  double late_requests = 0;     // that arrive up to ten minutes later
  double silent_ends = 0;       // share of machines that end without a notice
  double failing_trainers = 0;  // share of attempts that end with an error
  Moment outages_every = 0;     // mean time between two outages of S3 (of 1 s to 10 min); 0: never
  // Mean time between two of these on a machine; 0: never.
  Moment process_pauses_every = 0;  // the agent alone stands still, up to 10 min
  Moment machine_pauses_every = 0;  // all of it, and its clock goes on
  Moment clock_stops_every = 0;     // its clock alone
};

struct WorldSettings {
  std::size_t experiments = 10;
  std::size_t hosts = 3;
  Moment work = 20 * 60'000;        // of an experiment
  Moment checkpoints = 2 * 60'000;  // between two
  Moment reclaims = 0;              // mean life of a machine; 0: for ever
  Moment boot = 90'000;             // until the next one has its place
  Moment notice = 120'000;
  Duration lease{60'000};
  Troubles troubles;
  // A trainer's reports: `curves[experiment]` has the value of each, at equal parts of the work.
  std::vector<std::vector<double>> curves;
  std::optional<Asha> stop;  // what compares them; a step is a millisecond of the work
  Objective objective{"val_accuracy", true};
  Moment at_most = 0;  // then it has hung; 0: a thousand times the work
};

class World {
 public:
  World(WorldSettings settings, std::uint64_t seed);
  ~World();

  // Runs until every experiment has ended. Returns what was broken; empty: nothing.
  std::string live();

  struct Figures {
    Moment makespan = 0;
    Moment machine_time = 0;  // of all machines, until the makespan
    std::size_t done = 0, given_up = 0;
    std::size_t attempts = 0;  // Begin
    std::size_t requests = 0;  // of all kinds, hints included
    std::size_t renewals = 0;
    Moment trained = 0;         // by trainers, repeated steps included
    std::size_t overlaps = 0;   // two trainers of one experiment, one of them with a bad clock
    std::size_t refused = 0;    // writes whose condition did not hold
    std::size_t stopped = 0;    // of those done: by the rule
    std::size_t unsettled = 0;  // reports at a rung that the bucket did not answer
  };
  const Figures& figures() const { return figures_; }
  // The experiment with the best last value, among those that were trained to their end.
  std::optional<std::size_t> best() const;
  // When so much machine time had been there: no makespan is shorter.
  Moment bound() const;

 private:
  struct Machine {
    std::size_t place = 0;
    std::unique_ptr<Claimant> claimant;
    bool alive = true;
    Moment born = 0;
    double rate = 1;                              // of its clock
    Moment process_until = 0, machine_until = 0;  // paused
    Moment clock_stopped_at = -1;
    Moment clock_lost = 0;
    bool bad_clock = false;  // it has stood still once

    // The trainer.
    bool training = false;
    std::size_t index = 0;
    std::uint64_t token = 0;
    Moment progress = 0, since = 0;
    bool gained = false;
    bool fails = false;
    Moment fails_at = 0;
    Time usable_until{};
    std::size_t reports = 0;       // of this experiment's, those that lie behind
    std::uint32_t judged = 0;      // rungs, as EarlyStop counts them
    std::uint64_t generation = 0;  // of the trainer, so that old events are known
    std::uint64_t wakes = 0;
    std::optional<TrainerGone> brings;  // the attempt that was ended and is not gone yet
  };
  struct Object {
    std::string body, etag;
    Moment written = 0;
  };
  struct Saved {  // a checkpoint
    std::uint64_t token;
    Moment progress;
  };
  struct Experiment {
    std::optional<Object> claim;
    bool ended = false, given = false;  // hints
    std::vector<Saved> saved;
    std::optional<std::uint64_t> stopped_by;  // the token that the rule ended
    bool finished = false;
  };
  class Rungs;

  void at(Moment when, std::function<void()> what);
  bool chance(double share);
  Moment uniform(Moment low, Moment high);
  Moment exponential(Moment mean);
  void break_promise(const std::string& what);
  bool outage() const { return now_ < outage_until_; }

  void start_machine(std::size_t place);
  void end_machine(Machine& machine);
  void plan_end(Machine& machine);
  void plan_troubles(Machine& machine);
  void plan_outage();

  void hear(Machine& machine, const News& news);
  void obey(Machine& machine, Claimant::Orders orders);
  void wake(Machine& machine);
  void carry(Machine& machine, const Request& request);
  Answer serve(const Ask& ask);
  Listed list() const;
  Answer write(const WriteClaim& write);
  void mark(const Mark& mark);
  static constexpr unsigned progress_bits = 40;  // of the number in a parent's name
  std::string parent_of(std::size_t index, std::uint64_t token) const;

  void begin(Machine& machine, const Begin& begin);
  void train(Machine& machine);
  Moment report_every() const;
  bool ends_early(Machine& machine);
  void save(Machine& machine);
  void bring(Machine& machine);
  void judge_giving(const Machine& machine, const Request& request);
  void stop_trainer(Machine& machine);
  Time clock(const Machine& machine) const;
  bool good_clock(const Machine& machine) const;

  WorldSettings settings_;
  std::mt19937_64 random_;
  Moment now_ = 0;
  struct Event {
    Moment when;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  std::vector<Experiment> experiments_;
  std::map<std::string, std::string> rungs_;  // objects: name and text
  std::map<std::string, std::string> late_;   // on their way there
  std::size_t ended_ = 0;
  std::vector<std::unique_ptr<Machine>> machines_;  // all that ever were
  std::uint64_t etags_ = 0;
  Moment outage_until_ = 0;
  std::vector<std::pair<Moment, int>> machines_up_;  // a change at a moment
  std::string broken_;
  Figures figures_;
};

}  // namespace spotter::sweep
