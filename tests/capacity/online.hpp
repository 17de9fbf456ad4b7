// The best policy without knowledge of the future: the best on the average for whoever knows how
// often spot capacity comes and goes, and nothing else. It shows how much of our policy's cost
// beyond the optimum (optimum.hpp) is the price of not knowing.
//
// Works on markets without memory: their one pool has capacity or not in each tick, with chances
// that do not depend on how long it has been so.
#pragma once

#include <cstdint>

#include "tests/capacity/market.hpp"

namespace spotter::capacity {

struct Chain {
  double available = 2, absent = 6;  // hours of a spell on the average
  double spot = 0.33;                // dollars an hour, where on-demand capacity costs 1
};

Market draw(const Chain& chain, unsigned seed, std::size_t ticks);

// By dynamic programming over time, work, what is available, and what runs; a tick does `parts` of
// work. REQUIRES: a start takes less than a tick.
class Online {
 public:
  Online(const Chain& chain, const Task& task, double tick, std::size_t parts = 5);

  // It must outlive what it returns, and be of the same task.
  std::unique_ptr<Policy> policy() const;

 private:
  friend class OnlinePolicy;
  enum Runs : std::uint8_t { None, Spot, Paid, kinds_of_runs };
  static std::size_t at(std::size_t work, std::size_t runs, bool there) {
    return (work * kinds_of_runs + runs) * 2 + (there ? 1 : 0);
  }
  void expect();                        // later_ by now_: before the next tick's capacity is known
  void choose(std::size_t ticks_left);  // now_ by later_

  Chain chain_;
  double tick_;
  std::size_t parts_, work_, start_, ticks_;
  std::vector<double> now_, later_;
  std::vector<std::uint8_t> choices_;  // of Runs
};

}  // namespace spotter::capacity
