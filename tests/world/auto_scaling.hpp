// The Query layer of Auto Scaling, beside EC2's. Element names: the API reference, checked against
// botocore's service model (tests/shapes).
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_Operations.html
#pragma once

#include "tests/world/access.hpp"
#include "tests/world/ec2_api.hpp"
#include "tests/world/groups.hpp"
#include "tests/world/members.hpp"

namespace spotter::world {

const MemberTable& auto_scaling_members();
void add_group_descriptions(Operations& operations);

// The permissions that the call needs:
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
std::vector<AccessRequest> auto_scaling_access(const Cloud& cloud, const Call& call);

}  // namespace spotter::world
