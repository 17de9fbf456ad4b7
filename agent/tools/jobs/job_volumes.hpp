// The volumes of a job that is launched or prepared.
#pragma once

#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/job/job.hpp"

namespace spotter::command {

// By the tag that the job's volume is found by, or as a copy of it that has not got that yet; those
// that are there, each once.
AwsResult<std::vector<wire::Volume>> volumes_of(AwsCalls& calls, const config::Job& job);
// One of a move that everybody has left: the agent makes the volume of it.
AwsResult<bool> has_snapshots(AwsCalls& calls, const config::Job& job);

// Makes the volumes of the job that are missing, and says so. `generation`: what differs between
// two launches of the job, so that a volume deleted since is made again.
AwsResult<void> provide_volumes(AwsCalls& calls, const config::Job& job,
                                const std::string& generation);

}  // namespace spotter::command
