// STS: who a caller is. Source:
// https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
#pragma once

#include "tests/world/world.hpp"

namespace spotter::world {

// "arn:aws:sts::123456789012:assumed-role/spotter-role/i-...", of a person
// "arn:aws:iam::123456789012:user/user".
std::string arn_of(const std::string& account, const std::string& role, const std::string& caller);
std::string arn_of(const Cloud& cloud, const std::string& caller);

// GetCallerIdentity; others: InvalidAction.
Reply sts(Cloud& cloud, const Call& call);

}  // namespace spotter::world
