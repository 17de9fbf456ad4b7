// Chooses the capacity that a job with a deadline uses now: spot, on demand, or none for the time
// being. It takes the cheapest choice on the average that cannot miss the deadline, by what was
// seen of spot capacity until now (below). Pure.
//
// Others measure it: tests/capacity has a judge, on which Wu et al., "Can't Be Late" (NSDI 2024),
// plays as well.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace spotter::capacity {

// The history of spot capacity: how long it was there each time, and how long it was absent. Pure;
// time is given, in hours.

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

struct Standing {
  double work = 0;  // hours of training that are left
  double time = 0;  // hours until the deadline
  Use use = Use::Nothing;
};

struct Choice {
  Use use = Use::Nothing;
  bool forced = false;  // any other choice would risk the deadline
  double expected = 0;  // dollars from now on, on the average; not known when forced: 0
};

struct Settings {
  double on_demand = 1;  // dollars an hour
  double spot = 0;       // dollars an hour; 0: not known
  double start = 0.1;    // hours from a request to the first new step
  double tick = 1;       // hours until it is asked again
  // Chosen on made-up markets (tests/capacity); twice or half of each changes little.
  Prior available{2, 4};
  Prior absent{1, 3};
  double half_life = 72;  // hours
};

// The values for rounded terms, in hours on demand, for at least so much work and slack: a caller
// that asks often keeps them. They stay until the next are asked for.
using ValuesOf = std::function<const Values&(const Terms& terms, double work, double slack)>;

// The kind of instance for the tick that begins, with spot capacity there or not. Asked each tick,
// and again at once when spot capacity is lost, it never chooses what may miss a deadline that
// on-demand capacity can keep, as long as `time` is at least `work` + `start` + `tick` when it is
// asked first, and `work` falls by what was trained. REQUIRES: on_demand, start and tick > 0.
Choice choose(const Spells& spells, bool spot, const Settings& settings, const Standing& standing,
              const ValuesOf& values_of = {});

}  // namespace spotter::capacity
