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

// The highest number at the end of a name there, as in step-000000001234 or checkpoint-1234; -1:
// there is none. Whoever wrote them: it only says whether a failing trainer makes progress.
std::int64_t newest_step(const std::string& folder);

// Nothing: the storage does not say.
std::optional<bool> result_is_there(const std::string& path);

// Where others reach this machine: $SPOTTER_GANG_ADDRESS, else the address of its way out.
std::string own_address();

}  // namespace spotter::command
