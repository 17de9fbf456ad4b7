// `spotter prepare`: makes, formats and fills the job's volume on a cheap instance, before GPUs
// cost money. This code makes the volume if there is none; the agent's core does the rest
// (decide/preparing.cpp), as it would to train.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/host/prepare.hpp"
#include "agent/job/job.hpp"
#include "agent/job/prepare.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

// The job's volume; none: it has none yet. Fails, saying what to do, if the job runs or its volume
// is moving between zones. `self`: the calling instance; empty: none.
Result<std::optional<wire::Volume>, CallError> free_volume(AwsCalls& calls, const config::Job& job,
                                                           const InstanceId& self);

// Waits until EC2 shows it as released by this instance, two minutes at most.
Result<void, CallError> await_free(AwsCalls& calls, const VolumeId& volume, const InstanceId& self);

// Uploads a local folder to `source.via`, from where an instance fetches it: files that S3 lacks,
// or has with another size or an older date. Returns how many.
Result<std::size_t> send(const config::Source& source, const std::atomic<bool>& stop);

// Fills the existing volume; returns the agent's exit status (agent/service/agent.hpp).
using FillHere = std::function<int(config::Job)>;

void add_prepare(CLI::App& app, FillHere fill_here, int& status);

}  // namespace spotter::command
