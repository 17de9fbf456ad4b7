// The caller's identity, and what instances are launched with and where: STS, IAM, zones, subnets,
// types, images, groups, templates, networks. Coded like ec2_query.hpp.
// Sources: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html and
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/
#pragma once

#include <cstddef>

#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {

struct CallerIdentity {
  std::string account;  // 123456789012
  std::string arn;      // arn:aws:sts::123456789012:assumed-role/spotter/i-0123456789abcdef0
};
struct GetCallerIdentity {  // needs no permission
  using Answer = CallerIdentity;
  static constexpr Api api{.action = "GetCallerIdentity", .service = "sts"};
};

// https://docs.aws.amazon.com/IAM/latest/APIReference/API_GetInstanceProfile.html
struct InstanceProfile {
  std::string role;  // its name; empty: it has none
  std::string role_arn = {};
};
struct GetInstanceProfile {  // one that is not there: NoSuchEntity
  using Answer = InstanceProfile;
  static constexpr Api api{.action = "GetInstanceProfile", .service = "iam"};
  std::string name;
  Region region;  // any of the account's partition
};

// https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
struct Simulated {  // of one action, on all resources that were asked for
  std::string action;
  bool allowed = false;
};
struct SimulatePrincipalPolicy {
  struct Entry {  // of what a call is said to carry: aws:RequestTag/spotter:job
    std::string key;
    std::string type;  // string | stringList | boolean
    std::vector<std::string> values;
  };
  using Answer = std::vector<Simulated>;
  static constexpr Api api{.action = "SimulatePrincipalPolicy", .service = "iam"};
  std::string role;  // its ARN; one that is not there: NoSuchEntity
  std::vector<std::string> actions, resources;
  std::vector<Entry> context;
  Region region;
};

struct DescribeAvailabilityZones {  // those that are switched on for the account
  struct Place {
    static constexpr std::string_view keys = "zoneName! zoneId zoneState!";
    Zone zone;
    std::string id;     // usw2-az1: the same place in every account
    std::string state;  // available | information | impaired | unavailable
  };
  using Answer = Page<Place>;  // always one
  static constexpr Api api{"DescribeAvailabilityZones", "availabilityZoneInfo", "NextToken"};
  std::string next_token = {};
};

struct Subnet {
  static constexpr std::string_view keys =
      "subnetId! availabilityZone! availableIpAddressCount! vpcId mapPublicIpOnLaunch ipv6Native";
  std::string id;
  Zone zone;
  std::uint64_t free_addresses = 0;
  std::string vpc = {};
  bool gives_public_addresses = false;  // an instance with one interface gets one
  bool is_ipv6_only = false;
};
struct DescribeSubnets {
  using Answer = Page<Subnet>;
  static constexpr Api api{"DescribeSubnets", "subnetSet", "SubnetId Filter NextToken"};
  std::vector<std::string> subnets = {};
  std::vector<Filter> filters = {};
  std::string next_token = {};
};

struct TypeOffering {
  static constexpr std::string_view keys = "instanceType! location!";
  InstanceType type;
  Zone zone;
};
struct DescribeInstanceTypeOfferings {  // by zone
  using Answer = Page<TypeOffering>;
  static constexpr Api api{
      "DescribeInstanceTypeOfferings", "instanceTypeOfferingSet",
      "Filter.1.Value NextToken Filter.1.Name=instance-type LocationType=availability-zone"};
  std::vector<std::string> types;  // may have wildcards; 200 at most
  std::string next_token = {};
};

struct TypeSize {
  InstanceType type;
  std::uint64_t vcpus = 0;
  std::uint64_t gpus = 0;  // of NVIDIA, as nvidia-smi counts them; a Gaudi or a Trainium is none
  std::vector<std::string> architectures = {};  // x86_64, arm64, i386, ...; empty: unknown
  // The most EBS volumes that it takes, the system's included, when it has one network interface
  // and all its own disks and accelerators; none: unknown.
  std::optional<std::uint64_t> most_volumes = {};
  bool needs_ena = false;                    // an image without EnaSupport does not start on it
  std::vector<std::string> placements = {};  // cluster, spread, ...: groups; empty: unknown
  std::vector<std::uint64_t> cards = {};     // indices of the network cards; empty: unknown
  std::optional<std::uint64_t> efas = {};    // interfaces of EFA, at most; 0: no EFA; none: unknown
  std::uint64_t mebibytes = 0;               // of memory; 0: not said
};
struct DescribeInstanceTypes {
  using Answer = Page<TypeSize>;
  static constexpr Api api{"DescribeInstanceTypes", "instanceTypeSet"};
  std::vector<std::string> types;  // 100 at most; one that does not exist: InvalidInstanceType
  std::string next_token = {};
  std::vector<std::string> like = {};  // in the place of types: g5.*, of which none may exist
};

struct Image {
  std::string id;
  std::string state;         // available | pending | disabled | deregistered | failed | ...
  std::string architecture;  // x86_64 | arm64 | i386 | ...
  std::optional<WallTime> created = {};
  std::optional<WallTime> deprecated = {};  // from when on
  std::uint64_t volumes = 0;                // of EBS, that an instance begins with
  std::string root;                         // the name of the first of them: /dev/xvda
  std::uint64_t root_gib = 0;               // 0: not said
  bool ena = false;                         // it has the driver of the network of Nitro systems
  std::string name = {};
  bool is_windows = false;
};
struct DescribeImages {  // also those that are deprecated or disabled
  using Answer = Page<Image>;
  static constexpr Api api{"DescribeImages", "imagesSet",
                           "ImageId NextToken IncludeDeprecated=true IncludeDisabled=true"};
  std::vector<std::string> images;  // one that does not exist: InvalidAMIID.NotFound, or no item
  std::string next_token = {};
};

// The chance that a spot request for so many instances succeeds, by zone: 10 is highly likely, 1
// not likely. The score is always low for one or two types. Source: the API reference, and
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-placement-score.html
struct SpotPlacementScore {
  static constexpr std::string_view keys = "availabilityZoneId! score!";
  std::string zone_id;
  std::uint64_t score = 0;
};
struct GetSpotPlacementScores {
  using Answer = Page<SpotPlacementScore>;
  static constexpr Api api{
      "GetSpotPlacementScores", "spotPlacementScoreSet",
      "InstanceType TargetCapacity RegionName.1 NextToken SingleAvailabilityZone=true"};
  std::vector<std::string> types;
  std::uint64_t capacity = 1;  // instances
  Region region;
  std::string next_token = {};
};

struct LaunchTemplate {
  std::string id;
  std::string name;
  std::string latest_version;  // a number
  Tags tags = {};
};
struct DescribeLaunchTemplates {        // those of this name: one or none
  using Answer = Page<LaunchTemplate>;  // one may have none, and the next one it
  static constexpr Api api{"DescribeLaunchTemplates", "launchTemplates",
                           "Filter.1.Value.1 NextToken Filter.1.Name=launch-template-name"};
  std::string name;
  std::string next_token = {};
};
Result<LaunchTemplate> decode_created_template(std::string_view xml);  // CreateLaunchTemplate
// CreateLaunchTemplateVersion: the version's number.
Result<std::string> decode_template_version(std::string_view xml);

// A rule for which instances are near one another:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_PlacementGroup.html
struct PlacementGroup {
  static constexpr std::string_view keys = "groupName! state! strategy! tagSet";
  std::string name;
  std::string state;     // pending | available | deleting | deleted
  std::string strategy;  // cluster | spread | partition
  Tags tags;
};
struct DescribePlacementGroups {        // those of this name
  using Answer = Page<PlacementGroup>;  // always one
  static constexpr Api api{"DescribePlacementGroups", "placementGroupSet",
                           "Filter.1.Value.1 Filter.1.Name=group-name"};
  std::string name;
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SecurityGroup.html
struct SecurityGroup {
  std::string id;
  // All traffic, of every protocol, from and to the members of this very group.
  bool lets_itself_in = false;
  bool lets_itself_out = false;
  std::string vpc = {};
  // CIDR blocks, prefix lists (pl-...) and groups whose TCP port 443 its members may ask.
  std::vector<std::string> https_to = {};
  // The same, beside the group itself, that reach a TCP port of the kernel's choosing of its
  // members.
  std::vector<std::string> lets_in = {};
  std::vector<std::string> https_from = {};  // and those that may ask its members' TCP port 443
};
struct DescribeSecurityGroups {
  using Answer = Page<SecurityGroup>;
  static constexpr Api api{"DescribeSecurityGroups", "securityGroupInfo",
                           "GroupId Filter NextToken"};
  std::vector<std::string> groups;  // one that does not exist: InvalidGroup.NotFound
  std::vector<Filter> filters = {};
  std::string next_token = {};
};

// The ways out of a network. Each is asked for by VPC.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Route.html
struct Route {
  std::string to;              // a CIDR block, of IPv4 or IPv6, or a prefix list (pl-...)
  std::string through;         // local, igw-..., nat-..., eigw-..., vpce-..., tgw-..., ...
  bool leads_nowhere = false;  // EC2's "blackhole": what it leads through is gone
};
struct RouteTable {
  std::string id;
  std::string vpc;
  bool is_main = false;  // of each subnet that is associated with none
  std::vector<std::string> subnets;
  std::vector<Route> routes;
};
struct DescribeRouteTables {
  using Answer = Page<RouteTable>;
  static constexpr Api api{"DescribeRouteTables", "routeTableSet",
                           "Filter.1.Value NextToken Filter.1.Name=vpc-id"};
  std::vector<std::string> vpcs;
  std::string next_token = {};
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_VpcEndpoint.html
struct VpcEndpoint {
  std::string id;
  std::string vpc;
  std::string type;                       // Gateway | Interface | GatewayLoadBalancer | ...
  std::string service;                    // com.amazonaws.us-west-2.s3
  std::string state;                      // available | pending | ...
  std::string policy;                     // JSON; empty: it has none
  bool has_private_names = false;         // the service's own names lead to it
  std::vector<std::string> route_tables;  // of a gateway
  std::vector<std::string> groups;        // of an interface: its security groups
};
struct DescribeVpcEndpoints {
  using Answer = Page<VpcEndpoint>;
  static constexpr Api api{"DescribeVpcEndpoints", "vpcEndpointSet",
                           "Filter.1.Value NextToken Filter.1.Name=vpc-id"};
  std::vector<std::string> vpcs;
  std::string next_token = {};
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_NatGateway.html
struct NatGateway {
  std::string id;
  std::string state;       // available | pending | failed | deleting | deleted
  bool is_public = false;  // it reaches the internet, not other private networks alone
};
struct DescribeNatGateways {
  using Answer = Page<NatGateway>;
  static constexpr Api api{"DescribeNatGateways", "natGatewaySet",
                           "Filter.1.Value NextToken Filter.1.Name=vpc-id"};
  std::vector<std::string> vpcs;
  std::string next_token = {};
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_NetworkAclEntry.html
struct AclEntry {
  std::uint64_t number = 0;  // the first that fits decides
  bool is_out = false;
  bool allows = false;
  std::string protocol;                   // a number; -1: all
  std::string block;                      // a CIDR block
  std::uint64_t least = 0, most = 65535;  // ports
};
struct NetworkAcl {
  std::string id;
  std::vector<std::string> subnets;
  std::vector<AclEntry> entries;
};
struct DescribeNetworkAcls {
  using Answer = Page<NetworkAcl>;
  static constexpr Api api{"DescribeNetworkAcls", "networkAclSet",
                           "Filter.1.Value NextToken Filter.1.Name=vpc-id"};
  std::vector<std::string> vpcs;
  std::string next_token = {};
};

using PlaceRequests =
    std::tuple<GetCallerIdentity, GetInstanceProfile, SimulatePrincipalPolicy,
               DescribeAvailabilityZones, DescribeSubnets, DescribeInstanceTypeOfferings,
               DescribeInstanceTypes, DescribeImages, GetSpotPlacementScores,
               DescribeLaunchTemplates, DescribePlacementGroups, DescribeSecurityGroups,
               DescribeRouteTables, DescribeVpcEndpoints, DescribeNatGateways, DescribeNetworkAcls>;

// The same call as a question whether it would be allowed: EC2 carries nothing out, and answers
// DryRunOperation or UnauthorizedOperation.
Query dry_run(Query query);

// AWS's answers to calls that make a fleet. No I/O. Sources:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/ and
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_AutoScalingGroup.html

// A fleet of type instant launches with the call: a 200 may say that it could not, or not all.
struct CreatedFleet {
  FleetId id;
  std::size_t instances = 0;
  std::string errors;  // "InsufficientInstanceCapacity: There is no ..."; empty: none
};
Result<CreatedFleet> decode_created_fleet(std::string_view xml);    // CreateFleet
Result<FleetId> decode_requested_spot_fleet(std::string_view xml);  // RequestSpotFleet

}  // namespace spotter::wire
