// Asks EC2 of the instance types and the image of a launch, and judges them (launch/machines.hpp).
#pragma once

#include "agent/aws/aws_calls.hpp"
#include "agent/launch/machines.hpp"
#include "agent/launch/user_data.hpp"

namespace spotter::command {

// What EC2 does not say, or may not be asked, is a warning that names it. An image that a parameter
// of SSM is to name, and does not, is left to image_of(). REQUIRES: job.launch.
Findings examine_machines(AwsCalls& calls, const config::Job& job,
                          const std::vector<launch::SentPackage>& packages);

}  // namespace spotter::command
