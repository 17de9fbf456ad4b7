// Trust policies: who may take a role. Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
#pragma once

#include "tests/world/world.hpp"

namespace spotter::world {

// MalformedPolicyDocument where it is none, or names a role or user that is not there, or that was
// just made: IAM stores the principal's own id, and does not find it yet.
Expected<void> check_trust(const Cloud& cloud, const std::string& document);

}  // namespace spotter::world
