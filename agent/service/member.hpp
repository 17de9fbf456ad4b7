// The name under which this instance is a member of its job's gang.
#pragma once

#include <string>

#include "agent/base/result.hpp"

namespace spotter {

// The instance's id: no other machine ever has it, and the agent after this one finds the same.
// Fails where the metadata service does not say within seconds: under another name it would
// be another member, beside the trainer that this one has left running.
Result<std::string> member_here();

}  // namespace spotter
