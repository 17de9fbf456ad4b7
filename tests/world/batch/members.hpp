// The members that AWS Batch's operations honour of a request's JSON.
#pragma once

#include <optional>

#include "tests/world/batch/values.hpp"
#include "tests/world/members.hpp"

namespace spotter::world::batch {

const MemberTable& members();
// ClientException, or nothing.
std::optional<ApiError> refuse_members(const std::string& operation, const Json& request);

}  // namespace spotter::world::batch
