// `spotter launch`, `stop` and `list`: jobs on AWS from where a person sits.
#pragma once

#include <string>

#include "agent/command/aws_calls.hpp"
#include "agent/command/fleets.hpp"
#include "agent/config/job.hpp"
#include "agent/launch/requests.hpp"
#include "agent/launch/user_data.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

// A job that can be launched, and what its instances are given.
struct LaunchedJob {
  config::Job job;
  std::string user_data;
  std::string digest;  // of the fleet's request: launch::request_digest()
};
// job.yaml as an instance will read it: by root. Fails without `launch:`, and when what it refers
// to is not there or does not fit into user data.
Result<LaunchedJob> launched_job(const std::string& job_file,
                                 launch::Work work = launch::Work::Serve);

// The launch template of this name with this content: made, or a new version of the one there.
AwsResult<launch::TemplateVersion> provide_template(AwsCalls& calls, const LaunchedJob& launched,
                                                    bool prepares);

// By the tag that the job's volume is found by, or as a copy of it that has not got that yet; those
// that are there, each once.
AwsResult<std::vector<wire::Volume>> volumes_of(AwsCalls& calls, const config::Job& job);
// One of a move that everybody has left: the agent makes the volume of it.
AwsResult<bool> has_snapshots(AwsCalls& calls, const config::Job& job);

inline constexpr std::string_view image_parameter = "resolve:ssm:";  // launch.image

// The id of the image: a fleet takes no parameter (resolve:ssm:) in its place.
AwsResult<std::string> image_of(AwsCalls& calls, const config::Launch& launch);

// Makes the volumes of the job that are missing, and says so. `generation`: what differs between
// two launches of the job, so that a volume deleted since is made again.
AwsResult<void> provide_volumes(AwsCalls& calls, const config::Job& job,
                                const std::string& generation);

// Ends the job's fleets and instances; what is left of them is waited for when `wait`.
struct Stop {
  bool keep_instances = false;
  bool wait = false;
};
AwsResult<void> stop_job(AwsCalls& calls, const JobKey& job, const Stop& how);

void add_launch(CLI::App& app, int& status);
void add_stop(CLI::App& app, int& status);
void add_list(CLI::App& app, int& status);

}  // namespace spotter::command
