// The capacity of an instance type for jobs.
#pragma once

#include "tests/world/batch/values.hpp"

namespace spotter::world::batch {

struct TypeCapacity {
  InstanceType type;
  Capacity capacity;
};

// Expands computeResources.instanceTypes: types, families ("g5") or "optimal". Leaves out a name
// that is neither a known type nor a known family.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html
std::vector<TypeCapacity> expand_types(const std::vector<std::string>& names);

}  // namespace spotter::world::batch
