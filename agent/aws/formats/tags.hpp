// The tags that Spotter writes on what it makes, and finds it by (spotter-storage(7)).
#pragma once

namespace spotter::tag {

// All begin with it: no tag of a user may.
inline constexpr const char* prefix = "spotter:";

inline constexpr const char* job = "spotter:job";  // its name; of all that is made for it
inline constexpr const char* role = "spotter:role";
inline constexpr const char* storage = "spotter:storage";  // config::storage_name()

// Tags of volumes and snapshots.
inline constexpr const char* parent = "spotter:parent";    // the volume that this is a copy of
inline constexpr const char* lineage = "spotter:lineage";  // the job's first volume
inline constexpr const char* moves = "spotter:moves";      // from that to this
inline constexpr const char* generation = "spotter:generation";
inline constexpr const char* ahead = "spotter:ahead";    // a snapshot that no move asked for
inline constexpr const char* format = "spotter:format";  // "blank": a file system may be made
inline constexpr const char* fence = "spotter:fence";    // the URL of the fence that guards it
inline constexpr const char* done = "spotter:done";      // the job is finished
inline constexpr const char* prepared =
    "spotter:prepared";  // config::digest_of() what was filled in

// Tags of fleets.
inline constexpr const char* request = "spotter:request";            // request_digest()
inline constexpr const char* regions = "spotter:regions";            // of the job, if several
inline constexpr const char* first_launch = "spotter:first-launch";  // of the job: its time
// A tag of the on-demand fleet that `spotter watch` makes: the id of the job's own fleet, which
// waits for spot capacity beside it, and ends with it.
inline constexpr const char* beside = "spotter:beside";
inline constexpr const char* watched = "spotter:watched";  // launch::tag_of(): by `spotter watch`
inline constexpr const char* rests = "spotter:rests";  // since when the watcher has it at target 0

// Values of `ahead`: decide::Taken.
inline constexpr const char* ahead_in_use = "true";
inline constexpr const char* ahead_released = "released";

// Values of `role`.
inline constexpr const char* role_data = "data";
inline constexpr const char* role_on_demand = "on-demand";  // of a fleet: see `beside`

}  // namespace spotter::tag
