// The permissions that a call to AWS Batch needs, and on which of its resources. Source:
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsbatch.html
#pragma once

#include "tests/world/access.hpp"
#include "tests/world/batch/state.hpp"

namespace spotter::world::batch {

struct Asked {
  std::string action;  // SubmitJob
  std::string caller;
  std::string arn;  // of a call about tags; else empty
  const Json& body;
};
// AccessDeniedException, or nothing.
std::optional<ApiError> refuse_access(const State& state, const Asked& asked);

}  // namespace spotter::world::batch
