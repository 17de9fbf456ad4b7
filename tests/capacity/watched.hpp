// `spotter watch` as a policy that is played on markets: each tick is a look, and the watcher's own
// functions decide (launch/deadline.hpp, places.hpp). It sees no more of another region than the
// watcher does: the prices, and whether the fleet that asks there gets an instance.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "agent/launch/deadline.hpp"
#include "tests/capacity/market.hpp"

namespace spotter::capacity {

// The values that were asked for before, of many plays.
class Tables {
 public:
  const Values& of(const Terms& terms, double work, double slack);

 private:
  static constexpr std::size_t most_bytes = std::size_t{256} << 20;
  using Key = std::tuple<double, double, double, double, double, double>;
  std::map<Key, Values> known_;
  std::size_t bytes_ = 0;
};

struct Watching {
  std::vector<std::string> regions;              // of the market's places; it begins in the first
  std::shared_ptr<Tables> tables = nullptr;      // of other plays
  std::optional<double> dollars = std::nullopt;  // limits.dollars, and what gives way beside it
  config::Deadline::GivesWay gives_way = config::Deadline::GivesWay::Deadline;
  // Its prices and how long a start takes are wrong by so much, drawn by the seed.
  double noise = 0;
  unsigned seed = 0;
};

// REQUIRES: a region for each place of the market.
std::unique_ptr<Policy> watched(const Market& market, const Task& task, const Watching& watching);

}  // namespace spotter::capacity
