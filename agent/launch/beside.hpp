// The on-demand fleets beside a job's own one, where its pools are in several regions: of two one
// stays, and what runs in a region that does not answer is none that has gone. Pure.
#pragma once

#include "agent/launch/fallback.hpp"

namespace spotter::launch {

// Of two that were asked for at once the oldest stays; but where the region of one did not answer
// for a while a second was asked for, and one of them trains: the machine that came first. Each
// watcher has to take the same, so what speaks against the oldest is to be seen by all.
struct Stays {
  FleetId id;
  bool is_sure = true;  // else the next looks show it
};
// REQUIRES: there is one.
Stays which_stays(const Watched& seen);

// An on-demand instance was asked for, a region cannot be read, and a machine that is in none of
// the others has published not long ago. No longer: a deadline does not wait for a region.
bool may_run_unseen(const Watched& seen, Duration start);

}  // namespace spotter::launch
