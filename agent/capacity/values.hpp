// The remaining cost of a job with a deadline, on the average, if it always does what is cheapest:
// a dynamic program over the work that is left and the slack, which is the time left less that
// work. Dollars, and hours.
//
// Spot capacity comes and goes, each at a rate of its own (a Markov process of two states).
// On-demand capacity is always there. A start takes `start` hours, which are paid and do no work.
// Running takes of the work; waiting and starting take of the slack. So both only fall, and each
// value follows from those below it.
#pragma once

#include <cstddef>
#include <vector>

namespace spotter::capacity {

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

}  // namespace spotter::capacity
