// Markets on which policies are played: pools whose spot capacity comes and goes, in ticks. Hours,
// and dollars an hour.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/capacity/planner.hpp"

namespace spotter::capacity {

// A pool in one tick.
struct Pool {
  bool available = false;
  double dollars = 0;     // of spot, an hour
  std::size_t place = 0;  // the region, among several
};

struct Position {
  double work = 0;  // hours of training that are left
  double time = 0;  // hours until the deadline
  Use use = Use::Nothing;
  std::size_t pool = 0;  // of Use::Spot
  // The place that has its data; none: nowhere yet.
  std::optional<std::size_t> place = std::nullopt;
  double paid = 0;  // dollars, until now
};

struct Pick {
  Use use = Use::Nothing;
  std::size_t pool = 0;  // of Use::Spot
  // The place that has its data from now on, with Use::OnDemand, if it is nowhere yet.
  std::optional<std::size_t> place = std::nullopt;
};

struct MarketPool {
  std::string name;
  std::vector<bool> available;  // in each tick, from its begin to its end
  std::vector<double> dollars;
  std::size_t place = 0;  // the region, among several
  std::string type = {};  // of instances; empty: not known
};

struct Market {
  double tick = 1.0 / 6;
  double on_demand = 1;                   // in each place
  std::vector<MarketPool> pools;          // of equally many ticks
  double move = 0;                        // dollars to bring the data from one place to another
  std::vector<std::string> regions = {};  // of the places, where traces name them; else ""

  std::size_t ticks() const { return pools.front().available.size(); }
  // The market as a policy sees it when a tick begins.
  std::vector<Pool> at(std::size_t which) const;
};

struct Task {
  std::size_t first = 0;  // the tick in which it begins
  std::size_t ticks = 0;  // until the deadline
  double work = 0;
  double start = 0.1;
};

struct Outcome {
  double dollars = 0;
  double hours = 0;  // until it ended, or until the deadline
  bool in_time = false;
  std::size_t starts = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Asked once a tick, until the work is done.
  virtual Pick choose(const std::vector<Pool>& pools, const Position& position) = 0;
};

// The data is where spot capacity was used last: used in another place it is brought there, which
// is paid. On-demand capacity is used where the data is. A tick that is begun is paid. A loss takes
// no work: the notice lets it be saved. Aborts when the policy chooses spot capacity that is not
// there.
Outcome play(const Market& market, const Task& task, Policy& policy);

std::unique_ptr<Policy> only_on_demand();
// The cheapest spot capacity; none while there is none; on demand from the last moment on.
std::unique_ptr<Policy> greedy(const Market& market, const Task& task);
// The same in one pool, as one who names a type and a zone.
std::unique_ptr<Policy> one_pool(const Market& market, const Task& task, std::size_t pool);
// Wu et al., "Can't Be Late" (NSDI 2024): without spot capacity on demand as long as it is behind
// an even pace. Over several pools: the cheapest that is available.
std::unique_ptr<Policy> uniform_progress(const Market& market, const Task& task);

}  // namespace spotter::capacity
