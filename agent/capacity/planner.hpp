// Chooses the capacity that a job with a deadline uses now: spot in one of its pools (an instance
// type in a zone), on demand, or none for the time being. It takes the cheapest choice on the
// average that cannot miss the deadline, by what it has seen of the pools (below). Pure.
//
// Others measure it: tests/capacity has a judge, on which Wu et al., "Can't Be Late" (NSDI 2024),
// plays as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace spotter::capacity {

// The history of the spot capacity of one pool (an instance type in a zone), or of several as one:
// how long capacity was there each time, and how long it was absent. Pure; time is given, in hours.

// The belief before anything is seen: `count` spells of `hours` each.
struct Prior {
  double count = 1;
  double hours = 1;
};

// Ends of spells, and hours in them.
struct Seen {
  double ends = 0;
  double hours = 0;
  bool operator==(const Seen&) const = default;
};

class Spells {
 public:
  // Anything seen `half_life` hours ago weighs half of what is seen now.
  Spells(Prior available, Prior absent, double half_life);
  // Goes on from what was seen before: with capacity there at the last look, or not.
  Spells(Seen available, Seen absent, double half_life, bool now);

  // From now on there is capacity, or none. If that is new, a spell has ended.
  void see(bool available);
  // Capacity stayed for so many hours as it was seen last.
  void pass(double hours);

  // The ends of spells in an hour of such spells, on the average. The current spell counts with
  // what it has lasted: the longer an outage is, the longer another hour of it is likely.
  double losses_an_hour() const { return available_.ends / available_.hours; }
  double returns_an_hour() const { return absent_.ends / absent_.hours; }
  const Seen& available() const { return available_; }
  const Seen& absent() const { return absent_; }

 private:
  Seen available_, absent_;
  double half_life_;
  bool now_ = false;
  bool known_ = false;
};

// The remaining cost of a job with a deadline, on the average, if it always does what is cheapest:
// a dynamic program over the work that is left and the slack, which is the time left less that
// work. Dollars, and hours.
//
// Spot capacity comes and goes, each at a rate of its own (a Markov process of two states).
// On-demand capacity is always there. A start takes `start` hours, which are paid and do no work.
// Running takes of the work; waiting and starting take of the slack. So both only fall, and each
// value follows from those below it.

enum class Use { Nothing, Spot, OnDemand };

struct Terms {
  double spot = 0;             // dollars an hour
  double on_demand = 1;        // dollars an hour
  double start = 0.1;          // hours, from a request to the first new step
  double losses_an_hour = 1;   // of the spot capacity that is used
  double returns_an_hour = 1;  // of spot capacity, while there is none
  double replaced = 0;         // the share of losses after which other spot capacity is there

  // The chance that something which happens `an_hour` times an hour has happened within `hours`.
  static double chance(double an_hour, double hours);
};

class Values {
 public:
  // Answers for so much work and slack at most; more slack than 1,000 starts is worth no more than
  // those. REQUIRES: all of them > 0, but `replaced`.
  Values(const Terms& terms, double work, double slack);
  // The same in the memory of a table that nobody needs any more.
  Values(const Terms& terms, double work, double slack, Values&& spare);

  // The cost from now on, if this is what runs, with spot capacity there to start on or not;
  // `slack` < 0 counts as 0. A deadline that may be missed costs more than any that is kept.
  double of(Use use, bool spot, double work, double slack) const;
  std::size_t bytes() const { return cells_.size() * sizeof(Cell); }

 private:
  struct Cell {
    double on_spot = 0;
    double paid = 0, paid_beside_spot = 0;  // on demand
    double none = 0, none_beside_spot = 0;  // nothing runs
  };
  // One step of the work, during which an event may come at a rate: all cells of a table use the
  // same ones.
  struct Run {
    Run(double dollars, double rate, double hours);
    // The cost when `after` follows, or `instead` what happened.
    double cost(double after, double instead) const {
      return instead + until_ + (after - instead - until_) * stays_;
    }

   private:
    double until_;  // dollars until it happens, however late
    double stays_;  // how likely it has not happened within the step
  };
  Values(const Terms& terms, double work, double slack, std::vector<Cell> memory);
  void fill(std::size_t row, std::size_t column);
  // When spot capacity is lost.
  double lost(const Cell& at) const;
  const Cell& cell(std::size_t row, std::size_t column) const;

  Terms terms_;
  double work_step_, slack_step_;
  std::size_t rows_;
  double start_fails_, found_waiting_;  // chances: in a start, and in a step of the slack
  Run on_spot_, paid_, paid_beside_spot_;
  std::vector<Cell> cells_;  // row by row; a row has one slack
};

struct Pool {
  bool available = false;  // there is spot capacity, as far as anybody can see
  double dollars = 0;      // of spot, an hour
  std::size_t place = 0;   // the region, among several
};

struct Standing {
  double work = 0;  // hours of training that are left
  double time = 0;  // hours until the deadline
  Use use = Use::Nothing;
  std::size_t pool = 0;  // of Use::Spot
  // The place that has its data; none: nowhere yet, or in each.
  std::optional<std::size_t> place = std::nullopt;
  double paid = 0;  // dollars, until now
};

struct Choice {
  Use use = Use::Nothing;
  std::size_t pool = 0;  // of Use::Spot
  bool forced = false;   // any other choice would risk the deadline
  double expected = 0;   // dollars from now on, on the average; not known when forced: 0
  // The place that has its data from now on, with Use::OnDemand, if it is nowhere yet.
  std::optional<std::size_t> place = std::nullopt;
};

struct Settings {
  double on_demand = 1;  // dollars an hour
  double start = 0.1;    // hours from a request to the first new step
  double tick = 1;       // hours until it is asked again
  // Chosen on made-up markets (tests/capacity); twice or half of each changes little.
  Prior available{2, 4};
  Prior absent{1, 3};
  double half_life = 72;  // hours
  double move = 0;        // dollars to bring the data from one place to another
  // Dollars of spot capacity when there is some, before any is seen; 0: not known.
  double usual_spot = 0;
};

// The values for terms that are nearly those asked for, in hours on demand: whoever pays other
// dollars for the same shares a table. The last few are kept, of at most 13 MB each.
class Tables {
 public:
  explicit Tables(std::size_t most_bytes = std::size_t{64} << 20) : most_bytes_(most_bytes) {}
  // Stays until the next but one is asked for, at least.
  const Values& of(const Terms& terms, double work, double slack);
  std::size_t bytes() const { return bytes_; }

 private:
  struct Table {
    Values values;
    std::uint64_t asked;
  };
  using Key = std::tuple<int, int, int, int, int, int, double>;
  std::map<Key, Table> known_;
  const std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::uint64_t asked_ = 0;  // how often a table was asked for
};

class Planner {
 public:
  // `tables`: those of other planners, whose arithmetic is then not done again.
  // REQUIRES: pools > 0, and all settings > 0.
  Planner(std::size_t pools, const Settings& settings, std::shared_ptr<Tables> tables = nullptr);

  // Takes over what was seen before of all pools as one, and of each if there is but one.
  void remember(const Spells& spells);

  // Learns the pools' state at the start of a tick. REQUIRES: one for each of them.
  void see(const std::vector<Pool>& pools);

  // Call it each tick, after see(), and again at once when spot capacity is lost. It never chooses
  // what may miss a deadline that on-demand capacity can keep, as long as `time` is at least `work`
  // + `start` + `tick` when it is asked first, and `work` falls by what was trained.
  Choice choose(const Standing& standing);

 private:
  // Nothing: no pool is available, or none is worth it.
  std::optional<std::size_t> best_pool(const Standing& standing) const;
  double dollars_an_hour(std::size_t pool) const;
  // The same with what it costs to bring the data there, by the hours for which it is used.
  double dollars_an_hour(std::size_t pool, const Standing& standing) const;
  double dollars_of_move(std::size_t pool, const Standing& standing) const;
  Terms terms(std::optional<std::size_t> pool, const Standing& standing) const;
  // Assumes that there are only that place's pools, and none of them available.
  Terms terms_in(std::size_t place) const;
  // The share of the pools that are in other places than the data.
  double share_elsewhere(const Standing& standing) const;

  Settings settings_;
  std::vector<Pool> now_;
  std::vector<Spells> spells_;  // of each pool
  Spells any_;                  // of all of them as one
  double usual_spot_;           // dollars: of the cheapest pool, when one is available
  // Losses of a pool's capacity, and those of them after which another pool had some. Before any is
  // seen one is assumed, half replaced; also with one pool, where it stands for a loss that is over
  // before the next tick.
  double losses_ = 1, replaced_ = 0.5;
  std::shared_ptr<Tables> tables_;
};

}  // namespace spotter::capacity
