// The requests to AWS, as the equivalent commands of `aws`. Pure. Names and limits:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleet.html,
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestSpotFleet.html,
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateAutoScalingGroup.html
#pragma once

#include "agent/aws/formats/aws_command.hpp"
#include "agent/base/clock_text.hpp"
#include "agent/config/job.hpp"
#include "agent/launch/machines.hpp"

namespace spotter::launch {

// The name of the launch template, and the tag Name of instances and fleet.
std::string resource_name(const config::Job& job);
std::string placement_group_of(const config::Job& job);      // its name; empty: none
std::string preparer_name(const config::Job& job);           // the same for `spotter prepare`
inline constexpr const char* role_of_preparers = "prepare";  // the value of their spotter:role

// All of these REQUIRE job.launch.

// A blank volume that the agent finds by its tag. REQUIRES: job.launch->volume. A second call with
// the same token makes no second volume.
wire::AwsCommand create_volume(const config::Job& job, const std::string& token);

// The job's own placement group. A second call for its name fails.
wire::AwsCommand create_placement_group(const config::Job& job);
wire::AwsCommand delete_placement_group(const std::string& name);

// `image`: an id, as fleets require; the resolved value of resolve:ssm:.
struct Template {
  std::string image;
  std::string user_data;       // before base64
  bool prepares = false;       // for `spotter prepare`: a template and a name of its own
  Interfaces interfaces = {};  // of a job with launch.efa; empty: EC2 makes one, without EFA
  std::string root = {};       // the root volume's name, where `disk` says what it is
  config::RootDisk disk = {};
  std::int64_t launched = 0;  // in seconds since 1970: user data is gentle with the first machines
};
wire::AwsCommand create_template(const config::Job& job, const Template& content);
wire::AwsCommand delete_template(const std::string& id);
wire::AwsCommand create_template_version(const config::Job& job, const std::string& id,
                                         const Template& content);

struct TemplateVersion {
  std::string id;
  std::string version;
};
// The fleet, of any kind. Two requests with the same token make only one fleet; an Auto Scaling
// group is made once by its name.
struct FleetRequest {
  TemplateVersion launch_template;
  std::string token, digest;
  // The job's, if this fleet is not its first: EC2 forgets a fleet two days after its end.
  std::optional<wire::WallTime> first_launch = {};
  bool rests = false;        // it asks for nothing until its target is raised
  std::string regions = {};  // in which the job has one, if several: tag_of_regions()
  std::optional<wire::WallTime> ends_at = {};
};
// When a fleet that is made now ends by itself, with its machines, whatever became of their agents:
// after three times limits.hours, as most of the rest is waiting for capacity; without that, or in
// a sweep, after 30 days. Whole days, so that launches at the same time ask for the same. A group
// has no such end.
wire::WallTime ends_by_itself(const config::Job& job, wire::WallTime now);
wire::AwsCommand request_fleet(const config::Job& job, const FleetRequest& wanted);
// Launches one instance of a type in a place as a fleet would, for a dry run: EC2 then also checks
// image, profile, security groups and key. `place`: a zone or subnet; empty: any.
wire::AwsCommand run_instance(const config::Job& job, const TemplateVersion& launch_template,
                              const std::string& type, const std::string& place);

// One instance, on demand, as an interruption would leave a volume half filled.
struct Preparer {
  std::string type;    // t3.micro
  std::string zone;    // empty: any
  std::string subnet;  // of that zone; empty: its default subnet
};
wire::AwsCommand request_preparer(const config::Job& job, const TemplateVersion& launch_template,
                                  const Preparer& wanted, const std::string& token);

// A fleet of one on-demand instance for as long as `own`, the job's fleet, gets no spot capacity.
// An EC2 Fleet beside every kind: the job's own goes on asking for spot capacity, and the instance
// that it launches is the only sure sign that there is some. `wanted`: with the digest of the job's
// own.
wire::AwsCommand request_on_demand(const config::Job& job, const FleetId& own,
                                   const FleetRequest& wanted);

// A digest of all that requires another fleet; not of the capacity, which can be changed.
std::string request_digest(const config::Job& job, const std::string& user_data);

// Changes the fleet's target capacity. 0 ends a group; its policy says how much of the target is on
// demand.
struct Capacity {
  int target = 0;
  int on_demand = 0;  // of the target
};
wire::AwsCommand set_capacity(const Fleet& fleet, const Capacity& capacity);
Capacity capacity_of(const config::Launch& launch);

// Makes an existing Auto Scaling group what request_fleet() would make. Its tags are changed last:
// until then it still counts as the group of another request.
wire::AwsCommand update_group(const config::Job& job, const TemplateVersion& launch_template);
wire::AwsCommand tag_group(const config::Job& job, const std::string& digest);
// Lets the group launch instances, or not; running ones stay.
wire::AwsCommand let_launch(const FleetId& group, bool launches);
// Stops the group from balancing zones: it would end instances in the zone with most, while a spot
// job runs where there is capacity.
wire::AwsCommand keep_zones(const FleetId& group);

// Writes the tag spotter:watched of the group.
wire::AwsCommand mark_group(const FleetId& group, const std::string& job, const std::string& mark);

}  // namespace spotter::launch
