// EC2's refusals before an operation looks at anything: names that it does not know, an unknown
// version of its API, page sizes out of range, tags for what the operation does not make.
#pragma once

#include <optional>

#include "tests/world/query.hpp"

namespace spotter::world {

std::optional<ApiError> check_parameters(const std::string& action, const Query& query);

bool is_resource_id(std::string_view text, std::string_view prefix);  // "vol-", and its digits
bool is_type_name(std::string_view text);                             // "p3.2xlarge"

}  // namespace spotter::world
