// Why a fleet launched no instance: it says so in its history alone. No I/O. Sources:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeFleetHistory.html,
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotFleetRequestHistory.html,
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_DescribeScalingActivities.html
#pragma once

#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {

struct LaunchFailure {
  WallTime at;
  std::string why;  // as AWS says it
};

// A page of what happened since then; of a group its newest hundred activities. Empty token: the
// first page.
Query describe_history(const Fleet& fleet, WallTime since, const std::string& token);
// The failures in a page.
Result<Page<LaunchFailure>> decode_history(std::string_view xml, const FleetKind& kind);

}  // namespace spotter::wire
