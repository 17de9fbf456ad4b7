// What an instance type has to offer to jobs.
#pragma once

#include "tests/world/batch/values.hpp"

namespace spotter::world::batch {

struct TypeCapacity {
  InstanceType type;
  Capacity capacity;
};

// Of computeResources.instanceTypes: types, families ("g5") or "optimal", expanded. What is known
// neither as type nor as family is left out.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html
std::vector<TypeCapacity> expand_types(const std::vector<std::string>& names);

}  // namespace spotter::world::batch
