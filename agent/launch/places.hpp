// A job with pools in several regions (launch.pools): the one in which it is, and when it goes to
// another. Each region has one fleet; that of the place where the job is asks for a spot instance,
// the others wait at target 0. Pure.
//
// A fleet that asks is the only sure sign of a region's capacity (placement scores promise
// nothing). So the job goes elsewhere when it gets no spot instance: to the cheapest place that did
// not lack capacity just before.
// While it has one, it stays.
#pragma once

#include <cstddef>

#include "agent/launch/fallback.hpp"

namespace spotter::launch {

struct PlaceSeen {
  std::string region;
  std::optional<WatchedFleet> own;  // none: it has no fleet there
  std::optional<WatchMark> mark;    // what was written down there
  double dollars = 0;               // an hour, in its cheapest pool; 0: not known

  bool asks() const { return own && own->target > 0; }
};

// The place where the job is: the one whose fleet asks for an instance, or was by its marks the
// last that did. The time at which a fleet was left to rest does not count: one that asked beside
// the job's by mistake is left to rest, too. REQUIRES: there is a place.
std::size_t place_of_job(const std::vector<PlaceSeen>& places);

// The regions where the job has no own fleet at work, in words; empty: none. The job may have ended
// there, so it is neither woken nor moved elsewhere. Empty for a job with one place.
std::string missing_in(const std::vector<PlaceSeen>& places);

// A move, step by step; a watcher may end, and AWS refuse, after each. The place that is entered is
// marked as the last looked at, and asks before the one that is left stops: both may ask for a
// moment, since the bucket lets only one write, but never none.
struct MoveMarks {
  WatchMark entered;  // of `to`, before it asks
  WatchMark refused;  // when it may not: it lacks capacity as if the job had just left it
};
MoveMarks marks_of_move(const WatchMark& mark);  // `mark`: of this look, in the place that is left

struct Move {
  std::size_t to = 0;
  std::string reason;  // a sentence for a person, with the figures
};
// `mark`: of this look, in the place where the job is. `patience`: for how long it waits there.
std::optional<Move> decide_move(const std::vector<PlaceSeen>& places, const WatchMark& mark,
                                Duration patience);

// A place where an on-demand instance may be asked for.
struct PaidPlace {
  bool has_fleet = false;                // of the job; without one nothing is asked for there
  std::optional<double> dollars;         // an hour; none: not known
  std::optional<wire::WallTime> lacked;  // none came of a request then
};
inline constexpr std::chrono::minutes lacks_for{30};  // then it is asked there again
bool lacks(const PaidPlace& place, wire::WallTime now);
// The cheapest that did not lack capacity just before; if all did, the one that did longest ago.
// `here`, if there is none. REQUIRES: here < places.size().
std::size_t place_on_demand(const std::vector<PaidPlace>& places, std::size_t here,
                            wire::WallTime now);
// The tag spotter:rests of an on-demand fleet that is ended because no instance came.
std::string tag_of_lack(wire::WallTime at);
std::optional<wire::WallTime> lack_of(const std::string& tag);  // none: it says no such thing

// The tag spotter:regions of each of the job's fleets: who sees one knows where the others are.
std::string tag_of_regions(const std::vector<std::string>& regions);
// Those that such a tag has and `known` has not, in words; empty: none.
std::string regions_beyond(const std::string& tag, const std::vector<std::string>& known);

}  // namespace spotter::launch
