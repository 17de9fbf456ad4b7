#pragma once

#include <string_view>

#include "tests/world/members.hpp"

namespace spotter::world {

struct Ec2Members {
  Members honoured;
  Members refused;  // of the names before the first dot: AWS knows them
};

// Whether some operation's request has a member of this name; but for those that are honoured or
// refused by their whole path.
bool is_ec2_member(std::string_view name);

// Every operation that this EC2 has.
const std::map<std::string, Ec2Members>& ec2_members();

}  // namespace spotter::world
