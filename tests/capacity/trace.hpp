// Traces of spot capacity, a file a pool.
//
//   seconds,available,dollars     lines in time's order; a first line of words is passed over;
//   0,1,0.918                     each holds until the next one. `available`: more than 0, or 0.
//   600,0,0.918                   Without dollars: `usual` is the price.
//
// or SkyPilot's form, {"metadata":{"gap_seconds":600},"data":[1,1,0]}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "tests/capacity/market.hpp"

namespace spotter::capacity {

// In ticks of so many hours; capacity that goes within a tick is not there in it.
Result<MarketPool> parse_pool(std::string_view text, double tick, double usual);

// Each of the places is a file, or a folder of them. The market ends with the shortest.
Result<Market> load_market(const std::vector<std::string>& places, double tick, double on_demand,
                           double usual);

}  // namespace spotter::capacity
