// Launch templates, requests of fleets and Auto Scaling groups: what AWS answers. No I/O. Sources:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/ and
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_AutoScalingGroup.html
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {

struct LaunchTemplate {
  std::string id;
  std::string name;
  std::string latest_version;  // a number
};

// Those of this name: one or none. A page may have none, and the next one it.
Query describe_templates(const std::string& name, const std::string& next_token = {});
Result<Page<LaunchTemplate>> decode_templates(std::string_view xml);
Result<LaunchTemplate> decode_created_template(std::string_view xml);
// CreateLaunchTemplateVersion: the version's number.
Result<std::string> decode_template_version(std::string_view xml);

// A fleet of type instant launches with the call: a 200 may say that it could not, or not all.
struct CreatedFleet {
  FleetId id;
  std::size_t instances = 0;
  std::string errors;  // "InsufficientInstanceCapacity: There is no ..."; empty: none
};
Result<CreatedFleet> decode_created_fleet(std::string_view xml);    // CreateFleet
Result<FleetId> decode_requested_spot_fleet(std::string_view xml);  // RequestSpotFleet

}  // namespace spotter::wire
