// A job as `spotter launch` and `spotter prepare` give it to instances: read as they will read it,
// and the launch template that brings it to them.
#pragma once

#include <string>
#include <string_view>

#include "agent/aws/aws_calls.hpp"
#include "agent/job/job.hpp"
#include "agent/launch/requests.hpp"
#include "agent/launch/user_data.hpp"

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

inline constexpr std::string_view image_parameter = "resolve:ssm:";  // launch.image

// The id of the image: a fleet takes no parameter (resolve:ssm:) in its place.
AwsResult<std::string> image_of(AwsCalls& calls, const config::Launch& launch);

}  // namespace spotter::command
