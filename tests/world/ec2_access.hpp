// The permissions that a call to EC2 needs: its actions, the resources, and what conditions may ask
// of them. Source:
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
#pragma once

#include <optional>

#include "tests/world/access.hpp"
#include "tests/world/world.hpp"

namespace spotter::world {

// Asks nothing about what does not exist (any more): EC2 answers NotFound. An action that is not
// modelled is one on "*".
std::vector<AccessRequest> needed_access(const Cloud& cloud, const Call& call);

// UnauthorizedOperation, or nothing.
std::optional<ApiError> refuse_access(const Cloud& cloud, const Call& call);

// The policies of a role ("instance", "role/NAME") or user; MalformedPolicyDocument, or
// LimitExceeded where they are longer than IAM takes them.
Expected<std::vector<Policy>> read_policies(const std::string& who,
                                            const std::vector<std::string>& documents);
// From now on `who` may do what these allow, and with none of them nothing.
Expected<void> put_policies(Cloud& cloud, const std::string& who,
                            const std::vector<std::string>& documents);
// An encrypted volume would be made with a key that its maker may not use: CreateVolume answers as
// if all were well, and the volume vanishes.
// https://docs.aws.amazon.com/ebs/latest/userguide/how-ebs-encryption-works.html
bool may_use_key(const Cloud& cloud, const Call& call);

// "User: ARN is not authorized to perform: ACTION on resource: ARN because ..."
std::string denial(const Cloud& cloud, const std::string& caller, const AccessRequest& request);

}  // namespace spotter::world
