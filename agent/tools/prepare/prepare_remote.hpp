// `spotter prepare` from outside of EC2.
#pragma once

#include <atomic>
#include <string>

#include "agent/aws/aws_calls.hpp"
#include "agent/job/job.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

struct RemoteOptions {
  std::string job = "job.yaml";
  std::string type = "t3.micro";
};

void add_remote_options(CLI::App& command, RemoteOptions& options);

// Uploads local folders to S3, launches an instance in the volume's zone that prepares the volume
// and ends, and waits for that. Returns the exit status.
int prepare_remote(AwsCalls& calls, const config::Job& job, const RemoteOptions& options,
                   const std::atomic<bool>& stop);

// Sets the zone of a new volume in `job`. Fails, with the reason, if it cannot be made there.
Result<void, CallError> fit_new_volume(config::Job& job, const Zone& zone);

}  // namespace spotter::command
