// What AWS is asked for, as the commands of `aws` that do the same. Pure. Names and limits:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleet.html,
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestSpotFleet.html,
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateAutoScalingGroup.html
#pragma once

#include <string>

#include "agent/aws/formats/aws_command.hpp"
#include "agent/job/job.hpp"

namespace spotter::launch {

// Of the launch template, and the Name of instances and fleet.
std::string resource_name(const config::Job& job);
std::string preparer_name(const config::Job& job);           // the same of `spotter prepare`
inline constexpr const char* role_of_preparers = "prepare";  // the value of their spotter:role

// Each of them REQUIRES job.launch.

// A blank volume that the agent finds by its tag; `REQUIRES: job.launch->volume`. A second call
// with the token makes no second volume.
wire::AwsCommand create_volume(const config::Job& job, const std::string& token);

// `image`: what resolve:ssm: leads to (fleets want an id).
struct Template {
  std::string image;
  std::string user_data;  // not yet in base64
  bool prepares = false;  // of `spotter prepare`: a template and a name of its own
};
wire::AwsCommand create_template(const config::Job& job, const Template& content);
wire::AwsCommand create_template_version(const config::Job& job, const std::string& id,
                                         const Template& content);

struct TemplateVersion {
  std::string id;
  std::string version;
};
// The fleet, of whatever kind. Of two requests with the same token only one makes a fleet; an Auto
// Scaling group has a name instead, and is made once.
wire::AwsCommand request_fleet(const config::Job& job, const TemplateVersion& launch_template,
                               const std::string& token, const std::string& digest);
// What a fleet launches of a type at a place, to be asked for as a dry run: EC2 looks at the image,
// the profile, the security groups and the key, too. `place`: a zone or subnet, empty: any.
wire::AwsCommand run_instance(const config::Job& job, const TemplateVersion& launch_template,
                              const std::string& type, const std::string& place);

// One instance, on demand: half a filled volume is of no use.
struct Preparer {
  std::string type;  // t3.micro
  std::string zone;
  std::string subnet;  // of that zone; empty: its default one
};
wire::AwsCommand request_preparer(const config::Job& job, const TemplateVersion& launch_template,
                                  const Preparer& wanted, const std::string& token);

// Of all that makes a fleet another: not its capacity, which can be changed.
std::string request_digest(const config::Job& job, const std::string& user_data);

// The same fleet with another target. Of a group, at 0: the end.
wire::AwsCommand set_capacity(const Fleet& fleet, int capacity);

// An Auto Scaling group that is there becomes what request_fleet() would make. Its tags follow
// last: until then it is taken for one of another request.
wire::AwsCommand update_group(const config::Job& job, const TemplateVersion& launch_template);
wire::AwsCommand tag_group(const config::Job& job, const std::string& digest);
// Whether it launches anything; what runs is left alone.
wire::AwsCommand let_launch(const FleetId& group, bool launches);
// A group that has several ends what runs where it has most, to have as many in each zone: a spot
// job has them where there is room.
wire::AwsCommand keep_zones(const FleetId& group);

std::string base64(std::string_view text);

}  // namespace spotter::launch
