// `spotter prepare`: the job's volume made, formatted and filled from a cheap instance, before a
// GPU is paid for. Here it is made, if there is none; the agent's core does the rest with it
// (decide/fill.cpp), as it would to train.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/host/prepare_fill.hpp"
#include "agent/job/job.hpp"
#include "agent/job/prepare.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

// --- prepare_volume.cpp: the volume, as EC2 has it ---

// Nothing of the job is at work, nor on its way between zones: else what is to be done about it.
// `self`: the instance that asks; empty: none. One volume, or none yet.
AwsResult<std::optional<wire::Volume>> free_volume(AwsCalls& calls, const config::Job& job,
                                                   const InstanceId& self);

// Until EC2 shows it as let go by this instance; two minutes at most.
AwsResult<void> await_free(AwsCalls& calls, const VolumeId& volume, const InstanceId& self);

// --- prepare_send.cpp ---

// The files of a folder of this machine to `source.via`, on their way to another one: those that
// S3 has not got, or has of another size or older. How many.
Result<std::size_t> send(const config::Source& source, const std::atomic<bool>& stop);

// With the volume that is there: the agent's exit status (agent/service/agent.hpp).
using FillHere = std::function<int(config::Job)>;

void add_prepare(CLI::App& app, FillHere fill_here, int& status);

}  // namespace spotter::command
