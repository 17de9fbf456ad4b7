// A look of `spotter watch` at a job: at each place, and at all together.
#pragma once

#include "agent/commands/launched_job.hpp"
#include "agent/commands/prospects.hpp"
#include "agent/launch/places.hpp"
#include "agent/wire/head.hpp"

namespace spotter::command {

// A look at one place.
struct Seen {
  launch::Watched watched;
  std::vector<JobFleet> all;
  std::vector<JobFleet> fleets;          // at work, none of `spotter prepare`
  std::optional<PoolPrices::Pool> spot;  // where a spot instance is, without its price
  std::optional<wire::Head> head;        // of a home in a bucket; none: it could not be read
  std::string ended;    // fleets that are not: of an on-demand one the token is used up
  std::string trouble;  // not empty: nothing is known of it, as AWS does not answer there
  const JobFleet* own() const;
};

// A look at all its places, in their order.
struct Looked {
  std::vector<Seen> places;
  std::size_t here = 0;     // where the job is
  launch::Watched watched;  // there, with the instances and on-demand fleets of the others

  const Seen& seen() const { return places[here]; }
  std::vector<JobFleet> all() const;
  std::vector<launch::PlaceSeen> places_seen(const std::vector<JobPlace>& of) const;
};
// Fails where nothing can be decided: AWS does not answer somewhere, and none of the fleets that it
// shows elsewhere asks for an instance.
Result<Looked, CallError> look_at(const std::vector<JobPlace>& places);

// By the fleets there.
launch::PlaceSeen place_seen(const JobPlace& place, const std::vector<JobFleet>& fleets);

}  // namespace spotter::command
