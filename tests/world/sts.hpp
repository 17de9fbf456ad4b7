// STS: who a caller is, and roles that a caller takes. Sources:
// https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html and
// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
#pragma once

#include "tests/world/world.hpp"

namespace spotter::world {

// "arn:aws:sts::123456789012:assumed-role/spotter-role/i-...", of who took a role
// "arn:aws:sts::123456789012:assumed-role/ROLE/SESSION", of a person
// "arn:aws:iam::123456789012:user/user".
std::string arn_of(const std::string& account, const std::string& role, const std::string& caller);
std::string arn_of(const Cloud& cloud, const std::string& caller);

// Temporary credentials.
Credential issue(Cloud& cloud, const std::string& caller, Duration lifetime);

// GetCallerIdentity, AssumeRole; others: InvalidAction. A role is there once it has policies
// (World::set_policies("role/NAME", ...), or IAM). It trusts everybody of the account whose own
// policies allow it; a role that IAM made trusts those that its trust policy names. Whoever took it
// is the caller "role/NAME/SESSION".
Reply sts(Cloud& cloud, const Call& call);

}  // namespace spotter::world
