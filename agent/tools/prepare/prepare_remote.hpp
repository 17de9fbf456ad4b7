// `spotter prepare` where there is no instance.
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

// Sends what only this machine has to S3, launches an instance in the volume's zone that prepares
// it and ends, and waits for that. Exit status.
int prepare_remote(AwsCalls& calls, const config::Job& job, const RemoteOptions& options,
                   const std::atomic<bool>& stop);

// A volume that is to be made can be made in this zone: then `job` says so. Else what is missing.
AwsResult<void> fit_new_volume(config::Job& job, const Zone& zone);

}  // namespace spotter::command
