// Answers of EC2, Auto Scaling, STS and IAM.
#include <algorithm>
#include <array>
#include <tuple>
#include <type_traits>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/ec2_xml.hpp"
#include "agent/base/record.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

template <class Read>
using Type = std::type_identity<Read>;

// --- what a page has as an item, and other answers that are read alike

// The states' words, in the order of their enumeration, whose last one is Unknown.
constexpr auto words_of(VolumeState) {
  return std::to_array<std::string_view>(
      {"creating", "available", "in-use", "deleting", "deleted", "error"});
}
constexpr auto words_of(AttachmentState) {
  return std::to_array<std::string_view>(
      {"attaching", "attached", "detaching", "detached", "busy"});
}
constexpr auto words_of(SnapshotState) {
  return std::to_array<std::string_view>(
      {"pending", "completed", "error", "recoverable", "recovering"});
}
constexpr auto words_of(InstanceState) {
  return std::to_array<std::string_view>(
      {"pending", "running", "shutting-down", "terminated", "stopping", "stopped"});
}

// An unknown word is State::Unknown.
template <class State>
State state_of(const std::string& text) {
  constexpr auto words = words_of(State());
  return static_cast<State>(std::ranges::find(words, text) - words.begin());
}

// Its fields in the order of its keys (base/record.hpp); a dot leads into a child. A number that is
// no optional one, a time and a state are always required.
template <class Thing>
requires requires { std::string_view(Thing::keys); }
Thing read_as(Type<Thing>, const Fields& fields) {
  static_assert(boost::pfr::tuple_size_v<Thing> == count_of(Thing::keys), "a key for each field");
  Thing thing;
  std::string_view left = Thing::keys;
  boost::pfr::for_each_field(thing, [&]<class Value>(Value& value) {
    const Key key = take_key(left);
    if (key.name == "-") return;
    const auto dot = key.name.find('.');
    const std::string parent(key.name.substr(0, dot)), name(key.name.substr(dot + 1));
    const Fields at = dot == key.name.npos ? fields
                      : key.needed         ? fields.child(parent.c_str())
                                           : fields.optional_child(parent.c_str());
    const char* field = name.c_str();
    if constexpr (std::same_as<Value, std::string>)
      value = key.needed ? at.text(field) : at.optional_text(field);
    else if constexpr (HasLimit<Value>)
      value = key.needed ? at.name<Value>(field) : at.optional_name<Value>(field);
    else if constexpr (std::same_as<Value, bool>)
      value = at.flag(field);
    else if constexpr (std::same_as<Value, std::uint64_t>)
      value = at.number(field);
    else if constexpr (std::same_as<Value, std::optional<std::uint64_t>>)
      value = at.optional_number(field);
    else if constexpr (std::same_as<Value, double>)
      value = at.decimal(field);
    else if constexpr (std::same_as<Value, WallTime>)
      value = at.time(field);
    else if constexpr (std::same_as<Value, std::optional<WallTime>>)
      value = at.optional_time(field);
    else if constexpr (std::is_enum_v<Value>)
      value = state_of<Value>(at.text(field));
    else if constexpr (std::same_as<Value, Tags>)
      value = at.tags();
    else if constexpr (!std::same_as<Value, int>)  // an int has the key -
      for (const Fields& item : at.optional_items(field))
        value.push_back(read_as(Type<typename Value::value_type>(), item));
  });
  return thing;
}

// "80%", "80", or empty at the very start.
int per_cent(std::string text) {
  if (text.ends_with('%')) text.pop_back();
  int value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || value > 100) return 0;
    value = value * 10 + (digit - '0');
  }
  return value > 100 ? 100 : value;
}

Snapshot read_as(Type<Snapshot>, const Fields& fields) {
  auto snapshot = read_as<Snapshot>(Type<Snapshot>(), fields);
  snapshot.progress = per_cent(fields.optional_text("progress"));
  return snapshot;
}

CapacityReservation read_as(Type<CapacityReservation>, const Fields& fields) {
  auto reservation = read_as<CapacityReservation>(Type<CapacityReservation>(), fields);
  reservation.is_block = fields.optional_text("reservationType") == "capacity-block";
  return reservation;
}

// AWS says <return>true</return>; others that speak EC2's API say nothing. A 200 is a yes then,
// too.
Done read_as(Type<Done>, const Fields& fields) {
  const std::string answer = fields.optional_text("return");
  if (!answer.empty() && answer != "true") fields.note("return", "is not true");
  return {};
}

// The API pages write both cancelled_running and deleted-running.
FleetState fleet_state(std::string text) {
  std::ranges::replace(text, '-', '_');
  if (text == "submitted") return FleetState::Submitted;
  if (text == "active") return FleetState::Active;
  if (text == "modifying") return FleetState::Modifying;
  if (text == "failed") return FleetState::Failed;
  if (text == "cancelled" || text == "deleted") return FleetState::Cancelled;
  if (text == "cancelled_running" || text == "deleted_running") return FleetState::CancelledRunning;
  if (text == "cancelled_terminating" || text == "deleted_terminating")
    return FleetState::CancelledTerminating;
  return FleetState::Unknown;
}

// The same answer under two sets of names.
struct CancellationNames {
  const char* successes;
  const char* failures;
  const char* id;
};

std::vector<FleetFailure> read_cancellation(const Fields& fields, const CancellationNames& names) {
  std::vector<FleetFailure> failed;
  for (const Fields& item : fields.optional_items(names.failures)) {
    const Fields error = item.child("error");
    failed.push_back({.id = item.name<FleetId>(names.id),
                      .code = error.text("code"),
                      .message = error.optional_text("message")});
  }
  const auto ended = fields.optional_items(names.successes);
  for (const Fields& item : ended) (void)item.name<FleetId>(names.id);  // notes one without
  if (failed.empty() && ended.empty())
    fields.note(names.successes, "names no fleet, nor does the list of failures");
  return failed;
}

int capacity(const Fields& fields, const char* name) {
  return static_cast<int>(std::min<std::uint64_t>(fields.number(name), 1'000'000));
}

int optional_capacity(const Fields& fields, const char* name) {
  return static_cast<int>(std::clamp(fields.optional_decimal(name), 0.0, 1'000'000.0));
}

TemplateInUse read_template(const Fields& request) {
  for (const Fields& config : request.optional_items("launchTemplateConfigs")) {
    const Fields it = config.optional_child("launchTemplateSpecification");
    return {it.optional_text("launchTemplateId"), it.optional_text("version")};
  }
  return {};
}

TemplateInUse read_template_of_group(const Fields& group) {
  const Fields it = group.optional_child("MixedInstancesPolicy")
                        .optional_child("LaunchTemplate")
                        .optional_child("LaunchTemplateSpecification");
  return {it.optional_text("LaunchTemplateId"), it.optional_text("Version")};
}

FleetStatus read_spot_fleet(const Fields& fields) {
  const Fields configuration = fields.child("spotFleetRequestConfig");
  return {.id = fields.name<FleetId>("spotFleetRequestId"),
          .state = fleet_state(fields.text("spotFleetRequestState")),
          .target_capacity = capacity(configuration, "targetCapacity"),
          .on_demand = optional_capacity(configuration, "onDemandTargetCapacity"),
          .type = configuration.optional_text("type"),
          .create_time = fields.optional_time("createTime"),
          .valid_until = configuration.optional_time("validUntil"),
          .launch_template = read_template(configuration),
          .tags = fields.tags()};
}

FleetStatus read_fleet(const Fields& fields) {
  const Fields target = fields.child("targetCapacitySpecification");
  return {.id = fields.name<FleetId>("fleetId"),
          .state = fleet_state(fields.text("fleetState")),
          .target_capacity = capacity(target, "totalTargetCapacity"),
          .on_demand = optional_capacity(target, "onDemandTargetCapacity"),
          .type = fields.optional_text("type"),
          .create_time = fields.optional_time("createTime"),
          .valid_until = fields.optional_time("validUntil"),
          .launch_template = read_template(fields),
          .tags = fields.tags()};
}

// Its desired capacity, and what still runs, are all that a group's state is.
FleetState group_state(const Fields& fields, int desired) {
  const auto processes = fields.members("SuspendedProcesses");
  const bool launches = std::ranges::none_of(
      processes, [](const Fields& it) { return it.text("ProcessName") == "Launch"; });
  if (fields.optional_text("Status").starts_with("Delete")) return FleetState::CancelledTerminating;
  if (desired > 0) return launches ? FleetState::Active : FleetState::CancelledRunning;
  const bool empty = fields.members("Instances").empty();
  return empty ? FleetState::Cancelled : FleetState::CancelledTerminating;
}

FleetStatus read_group(const Fields& fields) {
  const int desired = capacity(fields, "DesiredCapacity");
  FleetStatus group{.id = fields.name<FleetId>("AutoScalingGroupName"),
                    .state = group_state(fields, desired),
                    .target_capacity = desired,
                    .type = "maintain",
                    .create_time = fields.optional_time("CreatedTime"),
                    .launch_template = read_template_of_group(fields),
                    .tags = {}};
  for (const Fields& tag : fields.members("Tags"))
    group.tags[tag.text("Key")] = tag.optional_text("Value");
  return group;
}

// `logicalGpuCount` says how many devices the machine sees if it has only a part of a GPU.
std::uint64_t gpus_of(const Fields& type) {
  std::uint64_t all = 0;
  for (const Fields& gpu : type.optional_child("gpuInfo").optional_items("gpus")) {
    if (gpu.optional_text("manufacturer") != "NVIDIA") continue;
    const auto devices = gpu.optional_number("logicalGpuCount");
    all += devices ? *devices : gpu.number("count");
  }
  return all;
}

std::optional<std::uint64_t> efas_of(const Fields& network) {
  const std::string supported = network.optional_text("efaSupported");
  if (supported == "false") return 0;
  if (supported != "true") return std::nullopt;
  return network.optional_child("efaInfo").optional_number("maximumEfaInterfaces");
}

std::vector<std::uint64_t> cards_of(const Fields& network) {
  std::vector<std::uint64_t> cards;
  for (const Fields& it : network.optional_items("networkCards"))
    cards.push_back(it.number("networkCardIndex"));
  return cards;
}

TypeSize read_as(Type<TypeSize>, const Fields& item) {
  const Fields network = item.optional_child("networkInfo");
  return {
      .type = item.name<InstanceType>("instanceType"),
      .vcpus = item.child("vCpuInfo").number("defaultVCpus"),
      .gpus = gpus_of(item),
      .architectures =
          item.optional_child("processorInfo").optional_texts("supportedArchitectures"),
      .most_volumes = item.optional_child("ebsInfo").optional_number("maximumEbsAttachments"),
      .needs_ena = network.optional_text("enaSupport") == "required",
      .placements = item.optional_child("placementGroupInfo").optional_texts("supportedStrategies"),
      .cards = cards_of(network),
      .efas = efas_of(network),
      .mebibytes = item.optional_child("memoryInfo").optional_number("sizeInMiB").value_or(0)};
}

Image read_as(Type<Image>, const Fields& item) {
  Image image{.id = item.text("imageId"),
              .state = item.text("imageState"),
              .architecture = item.text("architecture"),
              .created = item.optional_time("creationDate"),
              .deprecated = item.optional_time("deprecationTime"),
              .root = item.optional_text("rootDeviceName"),
              .ena = item.flag("enaSupport"),
              .name = item.optional_text("name"),
              .is_windows = lower_case(item.optional_text("platform")) == "windows"};
  for (const Fields& device : item.optional_items("blockDeviceMapping")) {
    const bool of_the_machine = !device.optional_text("virtualName").empty();  // ephemeral0
    if (!of_the_machine) ++image.volumes;
    if (device.optional_text("deviceName") != image.root) continue;
    image.root_gib = device.optional_child("ebs").optional_number("volumeSize").value_or(0);
  }
  return image;
}

LaunchTemplate read_as(Type<LaunchTemplate>, const Fields& fields) {
  return {fields.text("launchTemplateId"), fields.text("launchTemplateName"),
          std::to_string(fields.number("latestVersionNumber")), fields.tags()};
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html: -1 is all protocols
bool all_of_itself(const Fields& group, const char* rules, const std::string& id) {
  for (const Fields& rule : group.optional_items(rules)) {
    if (rule.text("ipProtocol") != "-1") continue;
    for (const Fields& other : rule.optional_items("groups"))
      if (other.optional_text("groupId") == id) return true;
  }
  return false;
}

// Ports of TCP. Linux's own range begins at 32768.
constexpr std::uint64_t https = 443, first_own = 32768, last_own = 60999;

bool is_of(const Fields& rule, std::uint64_t least, std::uint64_t most) {
  const std::string protocol = rule.text("ipProtocol");
  if (protocol != "tcp" && protocol != "6") return protocol == "-1";
  return rule.optional_number("fromPort").value_or(0) <= most &&
         rule.optional_number("toPort").value_or(most) >= least;
}

std::vector<std::string> others(const Fields& group, const char* rules, std::uint64_t least,
                                std::uint64_t most) {
  std::vector<std::string> all;
  for (const Fields& rule : group.optional_items(rules)) {
    if (!is_of(rule, least, most)) continue;
    for (const auto& [list, name] : {std::pair{"ipRanges", "cidrIp"},
                                     {"ipv6Ranges", "cidrIpv6"},
                                     {"prefixListIds", "prefixListId"},
                                     {"groups", "groupId"}})
      for (const Fields& it : rule.optional_items(list)) all.push_back(it.optional_text(name));
  }
  return all;
}

SecurityGroup read_as(Type<SecurityGroup>, const Fields& item) {
  const std::string id = item.text("groupId");
  auto in = others(item, "ipPermissions", first_own, last_own);
  std::erase(in, id);
  return {id,
          all_of_itself(item, "ipPermissions", id),
          all_of_itself(item, "ipPermissionsEgress", id),
          item.optional_text("vpcId"),
          others(item, "ipPermissionsEgress", https, https),
          std::move(in),
          others(item, "ipPermissions", https, https)};
}

std::string first_of(const Fields& item, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (auto text = item.optional_text(name); !text.empty()) return text;
  return {};
}

Route read_as(Type<Route>, const Fields& item) {
  return {.to = first_of(item, {"destinationCidrBlock", "destinationIpv6CidrBlock",
                                "destinationPrefixListId"}),
          .through = first_of(
              item, {"gatewayId", "natGatewayId", "egressOnlyInternetGatewayId", "transitGatewayId",
                     "vpcPeeringConnectionId", "networkInterfaceId", "instanceId", "localGatewayId",
                     "carrierGatewayId", "coreNetworkArn", "odbNetworkArn"}),
          .leads_nowhere = item.optional_text("state") == "blackhole"};
}

RouteTable read_as(Type<RouteTable>, const Fields& item) {
  RouteTable table{.id = item.text("routeTableId"), .vpc = item.text("vpcId")};
  for (const Fields& it : item.optional_items("associationSet")) {
    table.is_main = table.is_main || it.flag("main");
    if (auto subnet = it.optional_text("subnetId"); !subnet.empty())
      table.subnets.push_back(std::move(subnet));
  }
  for (const Fields& it : item.optional_items("routeSet"))
    table.routes.push_back(read_as(Type<Route>(), it));
  return table;
}

VpcEndpoint read_as(Type<VpcEndpoint>, const Fields& item) {
  std::vector<std::string> groups;
  for (const Fields& it : item.optional_items("groupSet")) groups.push_back(it.text("groupId"));
  return {.id = item.text("vpcEndpointId"),
          .vpc = item.text("vpcId"),
          .type = item.text("vpcEndpointType"),
          .service = item.optional_text("serviceName"),
          .state = lower_case(item.text("state")),
          .policy = item.optional_text("policyDocument"),
          .has_private_names = item.flag("privateDnsEnabled"),
          .route_tables = item.optional_texts("routeTableIdSet"),
          .groups = std::move(groups)};
}

NatGateway read_as(Type<NatGateway>, const Fields& item) {
  return {item.text("natGatewayId"), item.text("state"),
          item.optional_text("connectivityType") != "private"};
}

AclEntry read_as(Type<AclEntry>, const Fields& item) {
  const Fields ports = item.optional_child("portRange");
  return {.number = item.number("ruleNumber"),
          .is_out = item.flag("egress"),
          .allows = item.text("ruleAction") == "allow",
          .protocol = item.text("protocol"),
          .block = first_of(item, {"cidrBlock", "ipv6CidrBlock"}),
          .least = ports.optional_number("from").value_or(0),
          .most = ports.optional_number("to").value_or(65535)};
}

NetworkAcl read_as(Type<NetworkAcl>, const Fields& item) {
  NetworkAcl acl{.id = item.text("networkAclId")};
  for (const Fields& it : item.optional_items("associationSet"))
    acl.subnets.push_back(it.text("subnetId"));
  for (const Fields& it : item.optional_items("entrySet"))
    acl.entries.push_back(read_as(Type<AclEntry>(), it));
  return acl;
}

CallerIdentity read_as(Type<CallerIdentity>, const Fields& fields) {
  const Fields result = fields.child("GetCallerIdentityResult");
  return {result.text("Account"), result.text("Arn")};
}

InstanceProfile read_as(Type<InstanceProfile>, const Fields& fields) {
  const Fields profile = fields.child("GetInstanceProfileResult").child("InstanceProfile");
  const auto roles = profile.members("Roles");
  if (roles.empty()) return {};
  return {roles.front().text("RoleName"), roles.front().optional_text("Arn")};
}

std::vector<Simulated> read_as(Type<std::vector<Simulated>>, const Fields& fields) {
  const Fields result = fields.child("SimulatePrincipalPolicyResult");
  std::vector<Simulated> all;
  for (const Fields& it : result.members("EvaluationResults"))
    all.push_back({it.text("EvalActionName"), it.text("EvalDecision") == "allowed"});
  if (result.flag("IsTruncated")) result.note("IsTruncated", "is true");
  return all;
}

// --- answers of one request alone

FleetStatus read_as(Type<DescribeSpotFleetRequests>, const Fields& item) {
  return read_spot_fleet(item);
}
FleetStatus read_as(Type<DescribeFleets>, const Fields& item) { return read_fleet(item); }

Page<FleetStatus> read_as(Type<DescribeAutoScalingGroups>, const Fields& fields) {
  const Fields result = fields.child("DescribeAutoScalingGroupsResult");
  Page<FleetStatus> page;
  for (const Fields& item : result.members("AutoScalingGroups"))
    page.items.push_back(read_group(item));
  page.next_token = result.optional_text("NextToken");
  return page;
}

Page<Instance> read_as(Type<DescribeInstances>, const Fields& fields) {
  Page<Instance> page;
  for (const Fields& reservation : fields.items("reservationSet"))
    for (const Fields& item : reservation.items("instancesSet"))
      page.items.push_back(read_as(Type<Instance>(), item));
  page.next_token = fields.optional_text("nextToken");
  return page;
}

std::vector<FleetFailure> read_as(Type<CancelSpotFleetRequests>, const Fields& fields) {
  return read_cancellation(
      fields, {"successfulFleetRequestSet", "unsuccessfulFleetRequestSet", "spotFleetRequestId"});
}
std::vector<FleetFailure> read_as(Type<DeleteFleets>, const Fields& fields) {
  return read_cancellation(
      fields, {"successfulFleetDeletionSet", "unsuccessfulFleetDeletionSet", "fleetId"});
}

// --- of whichever request

template <class Request, class Item>
Page<Item> read_page(Page<Item> page, const Fields& fields) {
  for (const Fields& item : fields.items(Request::api.items))
    if constexpr (requires { read_as(Type<Request>(), item); })
      page.items.push_back(read_as(Type<Request>(), item));
    else
      page.items.push_back(read_as(Type<Item>(), item));
  page.next_token = fields.optional_text("nextToken");
  return page;
}

template <class Request>
typename Request::Answer read_all(const Fields& fields) {
  using Answer = typename Request::Answer;
  if constexpr (!std::string_view(Request::api.items).empty())
    return read_page<Request>(Answer(), fields);
  else if constexpr (requires { read_as(Type<Request>(), fields); })
    return read_as(Type<Request>(), fields);
  else
    return read_as(Type<Answer>(), fields);
}

FleetId read_fleet_id(const Fields& fields, const char* name) {
  const auto id = fields.name<FleetId>(name);
  if (id.empty()) fields.note(name, "is empty");
  return id;
}

template <class... Request>
constexpr auto decoders_of(const std::tuple<Request...>*) {
  return std::tuple{&decode<Request>...};
}
// Makes the compiler write decode() for each request.
[[gnu::used]] constexpr auto decoders_of_ec2 = decoders_of(static_cast<Ec2Requests*>(nullptr));
[[gnu::used]] constexpr auto decoders_of_places = decoders_of(static_cast<PlaceRequests*>(nullptr));

}  // namespace

template <class Request>
Result<typename Request::Answer> decode(std::string_view xml) {
  return read_answer(xml, Request::api.action, read_all<Request>);
}

Result<LaunchTemplate> decode_created_template(std::string_view xml) {
  return read_answer(xml, "CreateLaunchTemplate", [](const Fields& fields) {
    return read_as(Type<LaunchTemplate>(), fields.child("launchTemplate"));
  });
}

Result<std::string> decode_template_version(std::string_view xml) {
  return read_answer(xml, "CreateLaunchTemplateVersion", [](const Fields& fields) {
    return std::to_string(fields.child("launchTemplateVersion").number("versionNumber"));
  });
}

Result<CreatedFleet> decode_created_fleet(std::string_view xml) {
  return read_answer(xml, "CreateFleet", [](const Fields& fields) {
    CreatedFleet made{.id = read_fleet_id(fields, "fleetId"), .instances = 0, .errors = {}};
    for (const Fields& some : fields.optional_items("fleetInstanceSet"))
      made.instances += some.optional_items("instanceIds").size();
    for (const Fields& item : fields.optional_items("errorSet")) {
      const std::string error =
          item.optional_text("errorCode") + ": " + item.optional_text("errorMessage");
      if (made.errors.find(error) != std::string::npos) continue;  // the same of another pool
      made.errors += (made.errors.empty() ? "" : "; ") + error;
    }
    return made;
  });
}

Result<FleetId> decode_requested_spot_fleet(std::string_view xml) {
  return read_answer(xml, "RequestSpotFleet", [](const Fields& fields) {
    return read_fleet_id(fields, "spotFleetRequestId");
  });
}

}  // namespace spotter::wire
