// What AWS answers where a fleet is made. No I/O. Sources:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/ and
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_AutoScalingGroup.html
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "agent/aws/formats/ec2_places.hpp"

namespace spotter::wire {

// A fleet of type instant launches with the call: a 200 may say that it could not, or not all.
struct CreatedFleet {
  FleetId id;
  std::size_t instances = 0;
  std::string errors;  // "InsufficientInstanceCapacity: There is no ..."; empty: none
};
Result<CreatedFleet> decode_created_fleet(std::string_view xml);    // CreateFleet
Result<FleetId> decode_requested_spot_fleet(std::string_view xml);  // RequestSpotFleet

}  // namespace spotter::wire
