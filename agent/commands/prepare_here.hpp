// `spotter prepare` on an instance, and the volume that it prepares, here or from elsewhere: with
// the rights of the instance's role.
#pragma once

#include <atomic>
#include <functional>

#include "agent/aws/aws_calls.hpp"
#include "agent/config/job.hpp"

namespace spotter::command {

// The job's volume; none: it has none yet, or its storage is a share. Fails, saying what to do, if
// the job runs or its volume is moving between zones. `self`: the calling instance; empty: none.
Result<std::optional<wire::Volume>, CallError> free_volume(AwsCalls& calls, const config::Job& job,
                                                           const InstanceId& self);

inline constexpr const char* cheap_type = "t3.micro";  // of the machine, unless a person says

// Launches a machine of that type in the zone of the job's volume, or where a job on a share runs,
// which puts files of it into S3 and ends, and waits for that; a signal ends the machine. Returns
// the words for a person if it has sent nothing.
Result<std::string, CallError> send_from_storage(const std::string& job_file,
                                                 const config::Sending& sending,
                                                 const std::string& type);

// Sets the zone of a new volume in `job`. Fails, with the reason, if it cannot be made there.
Result<void, CallError> fit_new_volume(config::Job& job, const Zone& zone);

// Makes, formats and fills the volume of each experiment; the exit status. `fill_here` fills one
// volume, and returns the agent's exit status (agent/service/agent.hpp).
Result<int> prepare_here(AwsCalls& calls, const config::Job& job, const wire::Identity& here,
                         const std::function<int(config::Job)>& fill_here,
                         const std::atomic<bool>& stop);

}  // namespace spotter::command
