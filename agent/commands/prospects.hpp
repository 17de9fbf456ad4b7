// Questions of `spotter watch` and `spotter plan` to AWS about a job with a deadline.
#pragma once

#include "agent/aws/aws_calls.hpp"
#include "agent/commands/fleets.hpp"
#include "agent/config/job.hpp"
#include "agent/launch/deadline.hpp"

namespace spotter::command {

struct PoolPrices {
  double on_demand = 1;  // dollars an hour, of the cheapest type
  double spot = 0.35;    // now, of the cheapest pool
  std::string zone;      // that pool's; empty: its price is not known
  struct Pool {
    std::string type, zone;
    double dollars = 0;
  };
  std::vector<Pool> pools;  // whose price is known
  launch::KnownPrices known{.on_demand = false, .spot = false};
  std::string trouble;  // what could not be read; then there are guesses in its place

  const Pool* find(const Pool& where) const {
    const auto it = std::ranges::find_if(pools, [&](const Pool& each) {
      return each.type == where.type && each.zone == where.zone;
    });
    return it == pools.end() ? nullptr : &*it;
  }
};
// A price that is not known, by the other one.
void guess_unknown(PoolPrices& prices);
// Prices of the job's types in its zones.
PoolPrices prices_now(AwsCalls& calls, const config::Launch& launch);

// The progress that the job's agents published last, of this run or of one before. None: nothing
// yet. Fails when it cannot be read.
Result<std::optional<launch::Published>> published_progress(const config::Job& job);

}  // namespace spotter::command
