// How `spotter watch` carries a job from one of its places to another (launch/places.hpp), step by
// step: it may end, and AWS refuse, after each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/tools/launch/watch_acts.hpp"

namespace spotter::command {

class Mover {
 public:
  Mover(const std::vector<JobPlace>& places, bool dry_run) : places_(places), dry_run_(dry_run) {}

  There at(const Looked& looked, std::size_t place) const {
    return {*places_[place].calls, places_[place].job, looked.places[place]};
  }

  // A place beside the job's asks, too.
  bool asks_elsewhere(const Looked& looked) const;
  // A move that was not finished, or that EC2 does not show yet.
  Result<void, CallError> quiet_others(const Looked& looked) const;

  // The bucket lets one write, so what is entered asks before what is left stops. Its tags say so
  // first: were they written later, another watcher's that has it rest would be lost. `mark`: of
  // this look, where the job is.
  Result<void, CallError> go(const Looked& looked, std::size_t to,
                             const launch::WatchMark& mark) const;

 private:
  bool asks_elsewhere(const Looked& looked, std::size_t place) const;
  Result<void, CallError> raise(const There& to, const launch::WatchMark& mark) const;
  Result<void, CallError> refused(const Looked& looked, const There& to,
                                  const launch::WatchMark& mark, const CallError& why) const;
  Result<void, CallError> quiet(const Looked& looked, const There& it) const;

  const std::vector<JobPlace>& places_;
  bool dry_run_;
};

}  // namespace spotter::command
