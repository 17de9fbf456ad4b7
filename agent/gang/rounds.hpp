// What the round that is over says of the trainer and of the machines, and who is in the next one.
// Pure, on the record alone.
#pragma once

#include <functional>
#include <string>

#include "agent/gang/participant.hpp"

namespace spotter::gang {

bool stays(const Member& member);     // it may be in a further round
bool is_ready(const Member& member);  // ... and waits for one
bool is_apart(const Member& member);  // ... since it could not reach a machine of the last
bool is_ranked(const Record& record, const std::string& id);
std::size_t count(const Record& record, bool (*which)(const Member&));

using IsSilent = std::function<bool(const Member&)>;

// Begins the next round with those that are ready, or says that the gang has failed. `is_silent`:
// the member's beats have stood still for so long that it is not only slow, or always.
// REQUIRES: its phase is Forming, and nobody is waited for.
void begin_round(Record& record, const Settings& settings, const IsSilent& is_silent);

// Where fewer than `min` stay, and enough would with those that were left out: as many of these as
// are needed are no longer, and true. Whether one of them was the reason was a guess.
bool take_back(Record& record, const Settings& settings);

}  // namespace spotter::gang
