// EFA, the network adapter with which machines that train together reach one another past the
// kernel: which network interfaces an instance gets. Pure.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/base/result.hpp"

namespace spotter::launch {

struct Interface {  // the first device of its card
  std::uint64_t card = 0;
  std::string type;  // interface (ENA) | efa (EFA with ENA) | efa-only (without an address)

  bool operator==(const Interface&) const = default;
};
using Interfaces = std::vector<Interface>;

// Those of a type with EFA: one on each network card that has it, and an address on the first
// alone. Empty: it has no EFA, or EC2 does not say how much.
Interfaces interfaces_of(const wire::TypeSize& type);

// Those that all these types can have, since the launch template has them for every type. Fails
// where not one of them would be EFA's.
Result<Interfaces> shared_interfaces(const std::vector<wire::TypeSize>& types);

std::size_t count_efas(const Interfaces& interfaces);

}  // namespace spotter::launch
