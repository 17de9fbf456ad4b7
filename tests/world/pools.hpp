// Pools of spot capacity: an instance type in a zone each, whose capacity comes and goes and whose
// price moves, as a market trace says. A pool that nobody set has the capacity of its zone, and a
// price that does not move.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-interruptions.html
#pragma once

#include <vector>

#include "tests/world/cloud.hpp"

namespace spotter::world {

struct PoolChange {
  InstanceType type;
  Zone zone;
  bool available = true;
  double dollars = 0;  // an hour
};

class Pools {
 public:
  explicit Pools(Cloud& cloud) : cloud_(cloud) {}

  // All of them at once, or an error and none. Spot instances of a pool without capacity, and those
  // whose maximum price is below the pool's, get the interruption notice and end `lead` later.
  Expected<void> set(const std::vector<PoolChange>& changes, Duration lead);

  // `max_price`: of the request; empty: up to any.
  bool has_room(const InstanceType& type, const Zone& zone, const std::string& max_price) const;
  bool pays(const LaunchOption& option) const;  // its maximum price, what its pool costs
  double price(const InstanceType& type, const Zone& zone) const;  // now
  struct Price {
    WallTime since{};
    double dollars = 0;
  };
  // The newest first, down to the one in force at `from`.
  std::vector<Price> prices(const InstanceType& type, const Zone& zone, WallTime from,
                            WallTime until) const;

 private:
  Expected<void> check(const PoolChange& change) const;
  void interrupt_instances(const PoolChange& change, Duration lead);

  Cloud& cloud_;
};

}  // namespace spotter::world
