// The best policy without knowledge of the future: the best on the average for whoever knows how
// often spot capacity comes and goes, and nothing else. It shows how much of our policy's cost
// beyond the optimum (optimum.hpp) is the price of not knowing.
//
// Works on markets without memory: each pool is a region of its own, and has capacity or not in
// each tick, with chances that are the same in all and do not depend on how long it has been so.
#pragma once

#include <cstdint>

#include "tests/capacity/market.hpp"

namespace spotter::capacity {

struct Chain {
  std::size_t pools = 3;
  double available = 2, absent = 6;  // hours of a spell on the average
  double spot = 0.33;                // dollars an hour, where on-demand capacity costs 1
  double move = 0.5;                 // dollars, from one pool to another
};

Market draw(const Chain& chain, unsigned seed, std::size_t ticks);

// By dynamic programming over time, work, what is available, what runs, and where the data is; a
// tick does `parts` of work. REQUIRES: a start takes less than a tick.
class Online {
 public:
  Online(const Chain& chain, const Task& task, double tick, std::size_t parts = 5);

  // It must outlive what it returns, and be of the same task.
  std::unique_ptr<Policy> policy() const;

 private:
  friend class OnlinePolicy;
  // Runs nothing, spot in the pool where the data is, or on demand.
  enum Runs : std::size_t { None, Spot, Paid, kinds_of_runs };
  std::size_t states() const { return (chain_.pools + 1) * kinds_of_runs * masks_; }
  std::size_t at(std::size_t work, std::size_t place, std::size_t runs, std::size_t mask) const {
    return ((work * (chain_.pools + 1) + place) * kinds_of_runs + runs) * masks_ + mask;
  }
  void expect();                        // later_ by now_: before the next tick's capacity is known
  void choose(std::size_t ticks_left);  // now_ by later_

  Chain chain_;
  double tick_;
  std::size_t parts_, work_, start_, masks_, ticks_;
  std::vector<double> chances_;  // from one mask of available pools to another
  std::vector<double> now_, later_;
  std::vector<std::uint8_t> choices_;  // 0: nothing, 1: on demand, else the pool and 2
};

}  // namespace spotter::capacity
