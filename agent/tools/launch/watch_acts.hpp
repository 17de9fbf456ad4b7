// What `spotter watch` asks AWS for in one place of a job. With `dry_run` each says what it would
// do, and does nothing.
#pragma once

#include <string>
#include <vector>

#include "agent/launch/fallback.hpp"
#include "agent/tools/launch/watch_look.hpp"

namespace spotter::command {

// A place at a look, to act there.
struct There {
  AwsCalls& calls;
  const config::Job& job;
  const Seen& seen;
};

// At the own fleet; and at the on-demand fleets that are there, whose instances read it, as the own
// fleet may be in another region.
Result<void, CallError> write_mark(const There& it, const launch::WatchMark& mark);
void mark_on_demand(const There& it, const launch::WatchMark& mark);

// At the own fleet, apart from the mark, which another watcher may write over.
Result<void, CallError> write_rest(const There& it, const std::string& text);
// A policy of before has no right to it: then the mark alone says that the fleet rests.
void try_to_write_rest(const There& it, const std::string& text);

// `ended`: of all places, the on-demand fleets that are not any more.
Result<void, CallError> ask_on_demand(const There& it, const launch::WatchMark& mark,
                                      const std::string& ended, bool dry_run);

// Of one of the fleets that are there: it is ended because no instance came.
Result<void, CallError> write_lack(const There& it, const FleetId& fleet);

// Those of the fleets that are there, with their instances.
Result<void, CallError> end_there(const There& it, const std::vector<FleetId>& ids, bool dry_run);

// For the own fleet: at 0 it ends its spot instance and asks for none.
Result<void, CallError> set_target(const There& it, int target, bool dry_run);

}  // namespace spotter::command
