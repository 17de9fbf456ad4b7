// The instance profile of a launch: is it there, and does EC2 know it?
#pragma once

#include "agent/aws/aws_calls.hpp"
#include "agent/base/finding.hpp"
#include "agent/job/job.hpp"

namespace spotter::command {

// What IAM says of launch.profile.
Finding examine_profile(AwsCalls& calls, const config::Launch& launch);

// Waits while EC2 does not know the profile that this RunInstances names, two minutes at most: IAM
// tells it of a new one only after some seconds, and launches fail until then. Whatever else EC2
// says is no failure here. `command`: who waits, for its line on standard error.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency
Result<void, CallError> await_profile(AwsCalls& calls, const wire::Query& run, const char* command);

}  // namespace spotter::command
