// The regions in which a job may run (launch.pools), with AWS in each.
#pragma once

#include "agent/aws/aws_calls.hpp"
#include "agent/aws/formats/ec2_places.hpp"
#include "agent/commands/code_archive.hpp"
#include "agent/config/job.hpp"
#include "agent/launch/requests.hpp"
#include "agent/launch/user_data.hpp"

namespace spotter::command {

// AWS in that region; empty: in the one that AWS_REGION names.
Result<std::unique_ptr<AwsCalls>> calls_in(const std::string& region);

struct JobPlace {
  std::unique_ptr<AwsCalls> calls;
  config::Job job;  // as it is launched there, with the names of its zones
};

// One for a job without pools, in the region that AWS_REGION names. Never empty. Fails where no
// region is known, or two places are the same one. REQUIRES: job.launch.
Result<std::vector<JobPlace>> places_of(const config::Job& job);

// The same with zones as job.yaml says them: asks nobody, as what ends a job must not depend on it.
Result<std::vector<JobPlace>> unnamed_places_of(const config::Job& job);

// A job as `spotter launch` and `spotter prepare` pass it to instances: parsed as the instances
// will parse it, and put into a launch template.

// A job that can be launched, and its instances' user data.
struct LaunchedJob {
  config::Job job;
  std::string user_data;
  std::string digest;                            // of the fleet's request: launch::request_digest()
  std::vector<launch::SentPackage> packages;     // that instances need: send_packages()
  bool rests = false;                            // its fleet is to be at target 0
  std::vector<std::string> regions = {};         // of a job with several, all of them
  std::shared_ptr<const CodeArchive> code = {};  // that instances need: send_code()
};
// The same as it is launched in one of its places. `rests`: the job is in another one.
LaunchedJob launched_at(const LaunchedJob& launched, const config::Job& job, bool rests);
// The regions of its pools; an empty one is AWS_REGION's.
std::vector<std::string> regions_of(const config::Job& job);
// Parses job.yaml as an instance will, as root. Fails without `launch:`.
Result<config::Job> job_to_launch(const std::string& job_file);
// The same with its user data. Fails also when a file that it names is missing or does not fit into
// user data, when there is no package that is to be sent, or the folder of code cannot be packed.
// `holds`: a machine on which the job fails stays for a while.
Result<LaunchedJob> launched_job(const std::string& job_file,
                                 launch::Work work = launch::Work::Serve,
                                 const std::optional<config::Sending>& sending = {},
                                 bool holds = false);

// Replaces each zone's id in `launch:` (usw2-az1) by its name in this account. Fails if the account
// has no such zone. Without an id AWS is not asked.
bool says_zone_ids(const config::Launch& launch);
Result<void, CallError> name_zones(AwsCalls& calls, config::Launch& launch);

// The launch templates of this name: one or none.
Result<std::vector<wire::LaunchTemplate>, CallError> templates_of(AwsCalls& calls,
                                                                  const std::string& name);

// The launch template of this name with this content: made, or a new version of the one there.
Result<launch::TemplateVersion, CallError> provide_template(AwsCalls& calls,
                                                            const LaunchedJob& launched,
                                                            bool prepares);

inline constexpr std::string_view image_parameter = "resolve:ssm:";  // launch.image

// The id of the image: a fleet takes no parameter (resolve:ssm:) in its place.
Result<std::string, CallError> image_of(AwsCalls& calls, const config::Launch& launch);

}  // namespace spotter::command
