// Names of EC2 that this one does not have: operations, and filters of those that are here.
#pragma once

#include <string>
#include <string_view>

namespace spotter::world {

bool is_filter_refused(const std::string& action, std::string_view filter);
// By its form: one of EC2's verbs, and words of the names of its resources.
bool is_ec2_operation(std::string_view name);

}  // namespace spotter::world
