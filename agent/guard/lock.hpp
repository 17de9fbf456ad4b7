// Says who is at work in a storage's checkpoints: a guard, from its start to its end, or a person's
// command, for moments. Locks of open file descriptions (fcntl(2)), in files that only the owner of
// `.spotter` may open: the kernel releases them however their holder ends.
#pragma once

#include <chrono>

#include "agent/base/result.hpp"
#include "agent/guard/place.hpp"

namespace spotter::guard {

inline constexpr const char* guards_lock = "guard.lock";
inline constexpr const char* persons_lock = "person.lock";

// The guard's lock, until it is closed. The descriptor is not open if the file system has no locks,
// or still has that of a machine that was lost: a guard is at work all the same. Fails if a
// person's command is at work for longer than `patience`.
Result<Descriptor> lock_as_guard(const Place& place, std::chrono::milliseconds patience);

// The lock of a person's command, until it is closed. Fails, with a sentence for that person, while
// a guard or another command is at work, and if that cannot be known.
Result<Descriptor> lock_as_person(const Place& place);

}  // namespace spotter::guard
