// What the members of a gang have in common on their storage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/base/result.hpp"

namespace spotter::command {

// Makes the folders that the trainer works in. The id of the home, which the first member made:
// members/.gang.
Result<std::string> gang_home(const std::string& home, const std::string& checkpoints);

// The highest step of a checkpoint's folder there, as libspotter and the frameworks name them
// (step-000000001234, checkpoint-1234, global_step1234, iter_0001234); -1: there is none. Other
// names may end with any number, a time, say, which would hide the trainer's progress.
std::int64_t newest_step(const std::string& folder);

// Nothing: the storage does not say.
std::optional<bool> result_is_there(const std::string& path);

// Where others reach this machine: $SPOTTER_GANG_ADDRESS, else the address of its way out.
std::string own_address();

}  // namespace spotter::command
