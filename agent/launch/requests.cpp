#include "agent/launch/requests.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/launch/user_data.hpp"

namespace spotter::launch {
namespace {

using OrderedJson = nlohmann::ordered_json;

using wire::AwsCommand;
using wire::Repeatable;

AwsCommand command(std::string service, std::string action, const OrderedJson& input,
                   Repeatable repeatable) {
  return {std::move(service), std::move(action),
          input.dump(-1, ' ', false, OrderedJson::error_handler_t::replace), repeatable};
}

// All below REQUIRE job.launch.
wire::Tags own_tags(const config::Job& job) {
  wire::Tags tags(job.launch->tags.begin(), job.launch->tags.end());
  tags[tag::job] = job.name.str();
  if (const auto storage = config::storage_name(job); !storage.empty())
    tags[tag::storage] = storage;
  return tags;
}

wire::Tags fleet_tags(const config::Job& job, const std::string& digest) {
  wire::Tags tags = own_tags(job);
  tags.emplace("Name", resource_name(job));
  tags[tag::request] = digest;
  return tags;
}

// EC2 Fleet's spelling: lowest-price.
std::string hyphenated(config::Allocation allocation) {
  constexpr const char* words[] = {"lowest-price", "diversified", "capacity-optimized",
                                   "price-capacity-optimized"};
  return words[static_cast<std::size_t>(allocation)];
}

bool is_always_on_demand(const config::Launch& launch) {
  return launch.on_demand.when == config::OnDemand::When::Always;
}

// The market type of the instances of a reservation.
const char* market_of(const config::CapacityReservation& it) {
  return it.interruptible ? "interruptible-capacity-reservation" : "capacity-block";
}

OrderedJson template_of(const TemplateVersion& it) {
  return {{"LaunchTemplateId", it.id}, {"Version", it.version}};
}
using Texts = std::vector<std::string>;

OrderedJson list_of(const wire::Tags& tags) {
  OrderedJson list = OrderedJson::array();
  for (const auto& [key, value] : tags) list.push_back({{"Key", key}, {"Value", value}});
  return list;
}

OrderedJson specification(const char* resource, const wire::Tags& tags) {
  return {{"ResourceType", resource}, {"Tags", list_of(tags)}};
}

OrderedJson network_interfaces(const config::Launch& launch, const Interfaces& interfaces) {
  OrderedJson list = OrderedJson::array();
  for (const Interface& it : interfaces)
    list.push_back({{"NetworkCardIndex", it.card},
                    {"DeviceIndex", 0},
                    {"InterfaceType", it.type},
                    {"Groups", launch.security_groups},
                    {"DeleteOnTermination", true}});
  return list;
}

OrderedJson root_volume(const Template& content) {
  OrderedJson disk = {
      {"VolumeSize", content.disk.size_gib}, {"VolumeType", "gp3"}, {"DeleteOnTermination", true}};
  if (content.disk.throughput) disk["Throughput"] = *content.disk.throughput;
  return OrderedJson::array({{{"DeviceName", content.root}, {"Ebs", disk}}});
}

// Without price and strategy, which are the request's: fleets refuse a template with a spot price.
OrderedJson template_data(const config::Job& job, const Template& content) {
  const config::Launch& launch = *job.launch;
  // One hop more reaches the containers of the trainer's, and with them code that has no user of
  // ours: only where the trainer may have the instance's role anyway.
  const int hops = job.trainer.imds_allowed ? 2 : 1;
  OrderedJson data = {{"ImageId", content.image},
                      {"IamInstanceProfile",
                       {{launch.profile.starts_with("arn:") ? "Arn" : "Name", launch.profile}}},
                      {"InstanceInitiatedShutdownBehavior", "terminate"},
                      {"MetadataOptions",
                       {{"HttpEndpoint", "enabled"},
                        {"HttpTokens", "required"},
                        {"HttpPutResponseHopLimit", hops},
                        {"InstanceMetadataTags", "enabled"}}}};
  if (!launch.key.empty()) data["KeyName"] = launch.key;
  if (!content.interfaces.empty())  // EC2 takes groups in one of the two places
    data["NetworkInterfaces"] = network_interfaces(launch, content.interfaces);
  else if (!launch.security_groups.empty())
    data["SecurityGroupIds"] = launch.security_groups;
  if (!content.root.empty()) data["BlockDeviceMappings"] = root_volume(content);
  wire::Tags tags = own_tags(job);
  tags.emplace("Name", content.prepares ? preparer_name(job) : resource_name(job));
  if (content.prepares) tags[tag::role] = role_of_preparers;
  data["TagSpecifications"] = OrderedJson::array({specification("instance", tags)});
  const wire::Tags of_disks(launch.tags.begin(), launch.tags.end());  // ours mark the job's volume
  if (!of_disks.empty()) data["TagSpecifications"].push_back(specification("volume", of_disks));
  if (launch.reservation && !content.prepares) {
    data["InstanceMarketOptions"] = {{"MarketType", market_of(*launch.reservation)}};
    data["CapacityReservationSpecification"] = {
        {"CapacityReservationTarget", {{"CapacityReservationId", launch.reservation->id}}}};
  }
  const std::string group = content.prepares ? "" : placement_group_of(job);
  if (!group.empty()) data["Placement"] = {{"GroupName", group}};
  data["UserData"] = wire::to_base64(compressed(stamped(content.user_data, content.launched)));
  return data;
}

// A gang's machines talk much, and between two zones slowly, at a price: of places with capacity
// the one named first is preferred.
bool has_priorities(const config::Job& job) {
  const config::Launch& launch = *job.launch;
  return job.gang && launch.allocation == config::Allocation::CapacityOptimized &&
         std::max(launch.zones.size(), launch.subnets.size()) > 1;
}

std::string strategy(const config::Job& job) {
  return hyphenated(job.launch->allocation) + (has_priorities(job) ? "-prioritized" : "");
}

// Spot Fleet's spelling: lowestPrice.
std::string capitalized(std::string text) {
  for (auto hyphen = text.find('-'); hyphen != text.npos; hyphen = text.find('-')) {
    text.erase(hyphen, 1);
    text[hyphen] = static_cast<char>(text[hyphen] - 'a' + 'A');
  }
  return text;
}

// All types in all zones or subnets; with priorities a place's is its number, and so each type's in
// it. `group`: the placement group, of which AWS does not say that the template's counts where an
// override names a zone.
OrderedJson overrides(const config::Job& job, const char* price, const std::string& group = "") {
  const config::Launch& launch = *job.launch;
  const bool in_subnets = !launch.subnets.empty();
  Texts places = in_subnets ? launch.subnets : launch.zones;
  if (places.empty()) places = {""};
  OrderedJson list = OrderedJson::array();
  for (const std::string& type : launch.instance_types) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::string& place = places[i];
      OrderedJson one = {{"InstanceType", type}};
      if (!place.empty()) one[in_subnets ? "SubnetId" : "AvailabilityZone"] = place;
      if (!launch.max_price.empty()) one[price] = launch.max_price;
      if (has_priorities(job)) one["Priority"] = i;
      if (!group.empty()) one["Placement"] = {{"GroupName", group}};
      list.push_back(std::move(one));
    }
  }
  return list;
}

OrderedJson all_on_demand(int capacity) {
  return {{"TotalTargetCapacity", capacity},
          {"OnDemandTargetCapacity", capacity},
          {"DefaultTargetCapacityType", "on-demand"}};
}

OrderedJson configs(const TemplateVersion& it, OrderedJson chosen) {
  return OrderedJson::array(
      {{{"LaunchTemplateSpecification", template_of(it)}, {"Overrides", std::move(chosen)}}});
}

void add_end(const FleetRequest& wanted, OrderedJson& input) {
  if (!wanted.ends_at) return;
  input["ValidUntil"] = wire::to_rfc3339(*wanted.ends_at);
  input["TerminateInstancesWithExpiration"] = true;
}

// Only a fleet of type instant launches into a reservation: as much as fits, once. It asks for
// nothing beside it, maintains nothing, and has no end of its own.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReservedCapacityOptionsRequest.html
void into_reservation(const config::CapacityReservation& reservation, OrderedJson& input) {
  for (const char* key : {"SpotOptions", "ExcessCapacityTerminationPolicy", "ValidUntil",
                          "TerminateInstancesWithExpiration"})
    input.erase(key);
  input["Type"] = "instant";
  input["TargetCapacitySpecification"]["DefaultTargetCapacityType"] =
      reservation.interruptible ? "reserved-capacity" : market_of(reservation);
  if (reservation.interruptible)
    input["ReservedCapacityOptions"] = {
        {"ReservationTypes", OrderedJson::array({market_of(reservation)})}};
}

AwsCommand ec2_fleet(const config::Job& job, const FleetRequest& wanted, const wire::Tags& tags) {
  const config::Launch& launch = *job.launch;
  OrderedJson input = {
      {"ClientToken", wanted.token},
      {"Type", "maintain"},
      {"TargetCapacitySpecification",
       {{"TotalTargetCapacity", launch.capacity}, {"DefaultTargetCapacityType", "spot"}}},
      {"SpotOptions", {{"AllocationStrategy", strategy(job)}}},
      {"ExcessCapacityTerminationPolicy", "termination"},
      {"LaunchTemplateConfigs",
       configs(wanted.launch_template, overrides(job, "MaxPrice", placement_group_of(job)))},
      {"TagSpecifications", OrderedJson::array({specification("fleet", tags)})}};
  if (is_always_on_demand(launch)) {
    input["TargetCapacitySpecification"] = all_on_demand(launch.capacity);
    input.erase("SpotOptions");
    if (has_priorities(job)) input["OnDemandOptions"] = {{"AllocationStrategy", "prioritized"}};
  }
  add_end(wanted, input);
  if (launch.reservation) into_reservation(*launch.reservation, input);
  return command("ec2", "CreateFleet", input, Repeatable::Token);
}

AwsCommand spot_fleet(const config::Job& job, const FleetRequest& wanted, const wire::Tags& tags) {
  const config::Launch& launch = *job.launch;
  OrderedJson config = {
      {"ClientToken", wanted.token},
      {"Type", "maintain"},
      {"TargetCapacity", launch.capacity},
      {"AllocationStrategy", capitalized(strategy(job))},
      {"IamFleetRole", launch.fleet_role},
      {"ExcessCapacityTerminationPolicy", "default"},
      {"LaunchTemplateConfigs", configs(wanted.launch_template, overrides(job, "SpotPrice"))},
      {"TagSpecifications", OrderedJson::array({specification("spot-fleet-request", tags)})}};
  const bool on_demand = is_always_on_demand(launch);
  if (on_demand) config["OnDemandTargetCapacity"] = launch.capacity;
  if (on_demand && has_priorities(job)) config["OnDemandAllocationStrategy"] = "prioritized";
  add_end(wanted, config);
  return command("ec2", "RequestSpotFleet", {{"SpotFleetRequestConfig", config}},
                 Repeatable::Token);
}

// Auto Scaling groups.

// The agent needs two minutes at most, and learns that it has to leave some seconds late. If it is
// dead, the instance costs money for that long.
constexpr int hook_seconds = 180;

// The settings of a group that can also be changed later.
OrderedJson group_shape(const config::Job& job, const TemplateVersion& it) {
  const config::Launch& launch = *job.launch;
  OrderedJson types = OrderedJson::array();
  for (const std::string& type : launch.instance_types) types.push_back({{"InstanceType", type}});
  const OrderedJson shares = {
      {"OnDemandBaseCapacity", 0},
      {"OnDemandPercentageAboveBaseCapacity", is_always_on_demand(launch) ? 100 : 0},
      {"SpotAllocationStrategy", hyphenated(launch.allocation)},
      {"SpotMaxPrice", launch.max_price}};  // empty: removes an earlier one
  OrderedJson shape = {{"AutoScalingGroupName", resource_name(job)},
                       {"MixedInstancesPolicy",
                        {{"LaunchTemplate",
                          {{"LaunchTemplateSpecification", template_of(it)}, {"Overrides", types}}},
                         {"InstancesDistribution", shares}}},
                       {"MinSize", 0},
                       {"MaxSize", launch.capacity},
                       {"DesiredCapacity", launch.capacity}};
  std::string subnets;
  for (const std::string& subnet : launch.subnets) subnets += (subnets.empty() ? "" : ",") + subnet;
  if (subnets.empty())
    shape["AvailabilityZones"] = launch.zones;
  else
    shape["VPCZoneIdentifier"] = subnets;
  return shape;
}

OrderedJson group_tags(const std::string& group, const wire::Tags& tags) {
  OrderedJson list = OrderedJson::array();
  for (const auto& [key, value] : tags)
    list.push_back({{"ResourceId", group},
                    {"ResourceType", "auto-scaling-group"},
                    {"Key", key},
                    {"Value", value},
                    {"PropagateAtLaunch", key != tag::request && key != tag::watched}});
  return list;
}

AwsCommand create_group(const config::Job& job, const TemplateVersion& it, const wire::Tags& tags) {
  OrderedJson input = group_shape(job, it);
  if (job.launch->max_price.empty())
    input["MixedInstancesPolicy"]["InstancesDistribution"].erase("SpotMaxPrice");
  input["LifecycleHookSpecificationList"] =
      OrderedJson::array({{{"LifecycleHookName", wire::checkpoint_hook},
                           {"LifecycleTransition", "autoscaling:EC2_INSTANCE_TERMINATING"},
                           {"HeartbeatTimeout", hook_seconds},
                           {"DefaultResult", "CONTINUE"}}});
  input["Tags"] = group_tags(resource_name(job), tags);
  return command("autoscaling", "CreateAutoScalingGroup", input, Repeatable::No);
}

}  // namespace

std::string resource_name(const config::Job& job) { return "spotter-" + job.name.str(); }

std::string placement_group_of(const config::Job& job) {
  const std::string& group = job.launch->placement_group;
  return group == config::own_placement_group ? resource_name(job) : group;
}

std::string preparer_name(const config::Job& job) { return resource_name(job) + ".prepare"; }

AwsCommand create_volume(const config::Job& job, const std::string& token) {
  const config::NewVolume& volume = *job.launch->volume;
  OrderedJson input = {{"AvailabilityZone", volume.zone},
                       {"Size", volume.size_gib},
                       {"VolumeType", volume.type},
                       {"ClientToken", token}};
  if (volume.iops) input["Iops"] = *volume.iops;
  if (volume.throughput) input["Throughput"] = *volume.throughput;
  if (volume.encrypted) input["Encrypted"] = true;
  if (!volume.kms_key.empty()) input["KmsKeyId"] = volume.kms_key;
  wire::Tags tags(job.launch->tags.begin(), job.launch->tags.end());
  tags[job.storage.ebs.tag.key] = job.storage.ebs.tag.value;
  tags[tag::job] = job.volumes_owner();
  tags[tag::role] = "state";
  tags[tag::storage] = config::storage_name(job);
  tags[tag::format] = "blank";
  input["TagSpecifications"] = OrderedJson::array({specification("volume", tags)});
  return command("ec2", "CreateVolume", input, Repeatable::Token);
}

AwsCommand create_placement_group(const config::Job& job) {
  const OrderedJson input = {
      {"GroupName", resource_name(job)},
      {"Strategy", "cluster"},
      {"TagSpecifications", OrderedJson::array({specification("placement-group", own_tags(job))})}};
  return command("ec2", "CreatePlacementGroup", input, Repeatable::No);
}

AwsCommand delete_placement_group(const std::string& name) {
  return command("ec2", "DeletePlacementGroup", {{"GroupName", name}}, Repeatable::Read);
}

AwsCommand create_template(const config::Job& job, const Template& content) {
  const OrderedJson input = {
      {"LaunchTemplateName", content.prepares ? preparer_name(job) : resource_name(job)},
      {"LaunchTemplateData", template_data(job, content)},
      {"TagSpecifications", OrderedJson::array({specification("launch-template", own_tags(job))})}};
  return command("ec2", "CreateLaunchTemplate", input, Repeatable::No);
}

AwsCommand create_template_version(const config::Job& job, const std::string& id,
                                   const Template& content) {
  const OrderedJson input = {{"LaunchTemplateId", id},
                             {"LaunchTemplateData", template_data(job, content)}};
  return command("ec2", "CreateLaunchTemplateVersion", input, Repeatable::No);
}

AwsCommand request_fleet(const config::Job& given, const FleetRequest& wanted) {
  config::Job job = given;
  if (wanted.rests) job.launch->capacity = 0;
  wire::Tags tags = fleet_tags(job, wanted.digest);
  if (!wanted.regions.empty()) tags[tag::regions] = wanted.regions;
  if (wanted.first_launch) tags[tag::first_launch] = wire::to_rfc3339(*wanted.first_launch);
  if (job.launch->type == FleetKind::AutoScalingGroup)
    return create_group(job, wanted.launch_template, tags);
  if (job.launch->type == FleetKind::SpotFleet) return spot_fleet(job, wanted, tags);
  return ec2_fleet(job, wanted, tags);
}

AwsCommand run_instance(const config::Job& job, const TemplateVersion& launch_template,
                        const std::string& type, const std::string& place) {
  OrderedJson input = {{"LaunchTemplate", template_of(launch_template)},
                       {"InstanceType", type},
                       {"MinCount", 1},
                       {"MaxCount", 1}};
  const bool spot = !is_always_on_demand(*job.launch) && !job.launch->reservation;
  if (spot) input["InstanceMarketOptions"] = {{"MarketType", "spot"}};
  if (!place.empty() && job.launch->subnets.empty())
    input["Placement"] = {{"AvailabilityZone", place}};
  else if (!place.empty() && job.launch->efa)  // EC2 takes a subnet in one of the two places
    input["NetworkInterfaces"] = OrderedJson::array(
        {{{"DeviceIndex", 0}, {"SubnetId", place}, {"Groups", job.launch->security_groups}}});
  else if (!place.empty())
    input["SubnetId"] = place;
  // A placement in the request replaces the template's whole placement.
  const std::string group = placement_group_of(job);
  if (!group.empty() && input.contains("Placement")) input["Placement"]["GroupName"] = group;
  return command("ec2", "RunInstances", input, Repeatable::No);
}

AwsCommand request_preparer(const config::Job& job, const TemplateVersion& launch_template,
                            const Preparer& wanted, const std::string& token) {
  wire::Tags tags = own_tags(job);
  tags.emplace("Name", preparer_name(job));
  tags[tag::role] = role_of_preparers;
  OrderedJson one = {{"InstanceType", wanted.type}};
  if (!wanted.subnet.empty())
    one["SubnetId"] = wanted.subnet;
  else if (!wanted.zone.empty())
    one["AvailabilityZone"] = wanted.zone;
  const OrderedJson input = {
      {"ClientToken", token},
      {"Type", "instant"},
      {"TargetCapacitySpecification",
       {{"TotalTargetCapacity", 1}, {"DefaultTargetCapacityType", "on-demand"}}},
      {"LaunchTemplateConfigs", configs(launch_template, OrderedJson::array({one}))},
      {"TagSpecifications", OrderedJson::array({specification("fleet", tags)})}};
  return command("ec2", "CreateFleet", input, Repeatable::Token);
}

AwsCommand request_on_demand(const config::Job& job, const FleetId& own,
                             const FleetRequest& wanted) {
  wire::Tags tags = fleet_tags(job, wanted.digest);
  tags[tag::role] = tag::role_on_demand;
  tags[tag::beside] = own.str();
  config::Job one = job;
  one.launch->max_price.clear();  // is of spot instances
  OrderedJson input = {
      {"ClientToken", wanted.token},
      {"Type", "maintain"},
      {"TargetCapacitySpecification", all_on_demand(1)},
      {"ExcessCapacityTerminationPolicy", "termination"},
      {"LaunchTemplateConfigs", configs(wanted.launch_template, overrides(one, "MaxPrice"))},
      {"TagSpecifications", OrderedJson::array({specification("fleet", tags)})}};
  add_end(wanted, input);
  return command("ec2", "CreateFleet", input, Repeatable::Token);
}

wire::WallTime ends_by_itself(const config::Job& job, wire::WallTime now) {
  using std::chrono::days;
  constexpr double hours_a_day = 24;
  days lasts(30);
  if (job.limits.hours && !job.sweep)
    lasts = days(std::max<std::int64_t>(std::llround(3 * *job.limits.hours / hours_a_day), 7));
  return std::chrono::ceil<days>(now) + lasts;
}

std::string request_digest(const config::Job& job, const std::string& user_data) {
  config::Job plain = job;
  plain.launch->capacity = 0;
  plain.storage = {};  // in user_data already; so a fleet made before its tag existed matches
  const auto fleet = request_fleet(plain, {});
  Template wanted{job.launch->image, user_data};
  if (job.launch->efa) wanted.interfaces = {{0, "efa"}};
  if (const auto disk = config::root_disk(job)) {
    wanted.root = "root";
    wanted.disk = *disk;
  }
  const auto content = create_template(plain, wanted);
  return wire::sha256_hex(fleet.action + fleet.input + content.input).substr(0, 16);
}

AwsCommand set_capacity(const Fleet& fleet, const Capacity& capacity) {
  const std::string id = fleet.id.str();
  if (fleet.kind == FleetKind::AutoScalingGroup) {
    OrderedJson input = {
        {"AutoScalingGroupName", id}, {"MinSize", 0}, {"DesiredCapacity", capacity.target}};
    if (capacity.target > 0) input["MaxSize"] = capacity.target;
    return command("autoscaling", "UpdateAutoScalingGroup", input, Repeatable::Read);
  }
  if (fleet.kind == FleetKind::SpotFleet)
    return command("ec2", "ModifySpotFleetRequest",
                   {{"SpotFleetRequestId", id},
                    {"TargetCapacity", capacity.target},
                    {"OnDemandTargetCapacity", capacity.on_demand}},
                   Repeatable::Read);
  return command("ec2", "ModifyFleet",
                 {{"FleetId", id},
                  {"TargetCapacitySpecification",
                   {{"TotalTargetCapacity", capacity.target},
                    {"OnDemandTargetCapacity", capacity.on_demand}}}},
                 Repeatable::Read);
}

AwsCommand update_group(const config::Job& job, const TemplateVersion& launch_template) {
  return command("autoscaling", "UpdateAutoScalingGroup", group_shape(job, launch_template),
                 Repeatable::Read);
}

AwsCommand tag_group(const config::Job& job, const std::string& digest) {
  return command("autoscaling", "CreateOrUpdateTags",
                 {{"Tags", group_tags(resource_name(job), fleet_tags(job, digest))}},
                 Repeatable::Read);
}

AwsCommand keep_zones(const FleetId& group) {
  return command("autoscaling", "SuspendProcesses",
                 {{"AutoScalingGroupName", group.str()},
                  {"ScalingProcesses", OrderedJson::array({"AZRebalance"})}},
                 Repeatable::Read);
}

AwsCommand delete_template(const std::string& id) {
  return command("ec2", "DeleteLaunchTemplate", {{"LaunchTemplateId", id}}, Repeatable::Read);
}

AwsCommand let_launch(const FleetId& group, bool launches) {
  const OrderedJson input = {{"AutoScalingGroupName", group.str()},
                             {"ScalingProcesses", OrderedJson::array({"Launch"})}};
  if (launches) return command("autoscaling", "ResumeProcesses", input, Repeatable::Read);
  return command("autoscaling", "SuspendProcesses", input, Repeatable::Read);
}

Capacity capacity_of(const config::Launch& launch) {
  return {launch.capacity, is_always_on_demand(launch) ? launch.capacity : 0};
}

AwsCommand mark_group(const FleetId& group, const std::string& job, const std::string& mark) {
  // The launcher may tag a group only as that of its job.
  const wire::Tags tags{{tag::job, job}, {tag::watched, mark}};
  return command("autoscaling", "CreateOrUpdateTags", {{"Tags", group_tags(group.str(), tags)}},
                 Repeatable::Read);
}

}  // namespace spotter::launch
