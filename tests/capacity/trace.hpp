// Traces of spot capacity, a file a pool: lines of a time, whether there is capacity, and a price
// where it is known. Each holds until the next one, and the last one is the end.
//
//   seconds,available,dollars     The first line may name the columns, in any order; without it
//   they 0,1,0.918                     are these. Fields end at a comma, a semicolon or a blank.
//   600,0,0.918                   Available: a number above 0, true, yes, up, or their contraries.
//
// A time is a number (of seconds, minutes, hours or ms, as its column is named; unnamed numbers
// that differ by less than 5 are hours, others seconds, and such of today's epoch ms), or
// 2026-12-04T18:00Z. Pools with a date, or seconds since 1970, are laid side by side by it; others
// begin at once.
//
// Also: lines of milliseconds,add|remove,node (Bamboo's traces of whole fleets), and
// {"metadata":{"gap_seconds":600},"data":[1,1,0],"prices":[...]} (SkyPilot's; prices may be
// missing).
#pragma once

#include <string_view>

#include "agent/base/result.hpp"
#include "tests/capacity/market.hpp"

namespace spotter::capacity {

// The way in which traces become a market.
struct Reading {
  double tick = 1.0 / 6;  // hours; capacity that goes within a tick is not there in it
  double usual = 0.3;     // dollars an hour where a trace has no prices
  double at_least = 1;  // there is capacity when so many instances are there, of a trace of counts
  bool one_is_lost = false;  // a trace's 1 says that there is none
  double move = 0;           // dollars, from one region to another
};

Result<MarketPool> parse_pool(std::string_view text, const Reading& reading);

// Each of the places is a file, or a folder of them (.csv, .json, .txt). The market ends with the
// shortest. `on_demand`: dollars an hour. Files that are named by type and zone, as in
// g5.xlarge_us-west-2a.csv, are of a region each; others are all of one.
Result<Market> load_market(const std::vector<std::string>& places, const Reading& reading,
                           double on_demand);

}  // namespace spotter::capacity
