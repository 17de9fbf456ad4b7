// The volumes of a job that is launched or prepared.
#pragma once

#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/job/job.hpp"

namespace spotter::command {

// The existing volumes with the tag by which the job's volume is found, and its copies without that
// tag, each once.
Result<std::vector<wire::Volume>, CallError> volumes_of(AwsCalls& calls, const config::Job& job);
// A snapshot of an interrupted move: the agent makes the volume from it.
Result<bool, CallError> has_snapshots(AwsCalls& calls, const config::Job& job);

// What a person does with a finished job's volume so that the job runs again.
std::string how_to_run_again(const wire::Volume& volume);

// Makes the job's missing volumes, and prints that. `generation`: differs between two launches of
// the job, so that a volume deleted since is made again.
Result<void, CallError> provide_volumes(AwsCalls& calls, const config::Job& job,
                                        const std::string& generation);

}  // namespace spotter::command
