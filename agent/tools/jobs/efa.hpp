// What AWS has for launch.efa: the network interfaces of the instance types, and security groups
// that let its traffic through.
#pragma once

#include "agent/aws/aws_calls.hpp"
#include "agent/base/finding.hpp"
#include "agent/job/job.hpp"
#include "agent/launch/machines.hpp"

namespace spotter::command {

// Whether one of launch.security_groups lets all traffic in from itself and out to itself, without
// which EFA's packets are dropped. What EC2 does not say is a warning. REQUIRES: job.launch.
Findings examine_efa(AwsCalls& calls, const config::Job& job);

// The interfaces of the job's instances; without launch.efa none. REQUIRES: job.launch.
Result<launch::Interfaces, CallError> efa_interfaces(AwsCalls& calls, const config::Job& job);

}  // namespace spotter::command
