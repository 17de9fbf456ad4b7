// A job with pools in several regions (launch.pools): in which of them it is, and when it goes to
// another. One fleet a region; that of the place where the job is asks for a spot instance, the
// others wait at target 0. Pure.
//
// Nobody says what capacity a region has: a fleet that asks is the only sure sign (placement scores
// promise nothing). So the job stays where its spot instance is, and goes elsewhere when it gets
// none: to the cheapest place that did not lack capacity just before.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "agent/launch/fallback.hpp"

namespace spotter::launch {

struct PlaceSeen {
  std::string region;
  std::optional<WatchedFleet> own;  // none: it has no fleet there
  std::optional<WatchMark> mark;    // what was written down there
  double dollars = 0;               // an hour, in its cheapest pool; 0: not known
};

// Where the job is: its fleet there asks for an instance, or was the last that did. REQUIRES: there
// is a place.
std::size_t place_of_job(const std::vector<PlaceSeen>& places);

struct Move {
  std::size_t to = 0;
  std::string reason;  // a sentence for a person, with the figures
};
// `mark`: of this look, in the place where the job is. `patience`: for how long it waits there.
std::optional<Move> decide_move(const std::vector<PlaceSeen>& places, const WatchMark& mark,
                                Duration patience);

}  // namespace spotter::launch
