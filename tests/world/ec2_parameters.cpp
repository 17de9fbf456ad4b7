// The parameters of each EC2 operation: one that it does not know is refused, as AWS does.
#include "tests/world/ec2_parameters.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace spotter::world {
namespace {

// The names before the first dot, by botocore's service model (tests/shapes compares them).
const std::map<std::string, std::string_view> operation_parameters = {
    {"AuthorizeSecurityGroupEgress",
     "CidrIp DryRun FromPort GroupId IpPermissions IpProtocol SourceSecurityGroupName "
     "SourceSecurityGroupOwnerId TagSpecification ToPort"},
    {"AuthorizeSecurityGroupIngress",
     "CidrIp DryRun FromPort GroupId GroupName IpPermissions IpProtocol SourceSecurityGroupName "
     "SourceSecurityGroupOwnerId TagSpecification ToPort"},
    {"AttachVolume", "Device DryRun EbsCardIndex InstanceId VolumeId"},
    {"CancelSpotFleetRequests", "DryRun SpotFleetRequestId TerminateInstances"},
    {"CreateFleet",
     "ClientToken Context DryRun ExcessCapacityTerminationPolicy LaunchTemplateConfigs "
     "OnDemandOptions ReplaceUnhealthyInstances ReservedCapacityOptions SpotOptions "
     "TagSpecification TargetCapacitySpecification TerminateInstancesWithExpiration Type "
     "ValidFrom ValidUntil"},
    {"CreateLaunchTemplate",
     "ClientToken DryRun LaunchTemplateData LaunchTemplateName Operator TagSpecification "
     "VersionDescription"},
    {"CreateLaunchTemplateVersion",
     "ClientToken DryRun LaunchTemplateData LaunchTemplateId LaunchTemplateName ResolveAlias "
     "SourceVersion VersionDescription"},
    {"CreatePlacementGroup",
     "DryRun GroupName LinkedGroupId Operator PartitionCount SpreadLevel Strategy "
     "TagSpecification"},
    {"CreateSecurityGroup", "DryRun GroupDescription GroupName TagSpecification VpcId"},
    {"CreateSnapshot", "Description DryRun Location OutpostArn TagSpecification VolumeId"},
    {"CreateTags", "DryRun ResourceId Tag"},
    {"CreateVolume",
     "AvailabilityZone AvailabilityZoneId ClientToken DryRun Encrypted Iops KmsKeyId "
     "MultiAttachEnabled Operator OutpostArn Size SnapshotId TagSpecification Throughput "
     "VolumeInitializationRate VolumeType"},
    {"DeleteFleets", "DryRun FleetId TerminateInstances"},
    {"DeletePlacementGroup", "DryRun GroupName"},
    {"DeleteSecurityGroup", "DryRun GroupId GroupName"},
    {"DeleteSnapshot", "DryRun SnapshotId"},
    {"DeleteTags", "DryRun ResourceId Tag"},
    {"DeleteVolume", "DryRun VolumeId"},
    {"DescribeAvailabilityZones", "AllAvailabilityZones DryRun Filter ZoneId ZoneName"},
    {"DescribeFleetHistory", "DryRun EventType FleetId MaxResults NextToken StartTime"},
    {"DescribeFleetInstances", "DryRun Filter FleetId MaxResults NextToken"},
    {"DescribeFleets", "DryRun Filter FleetId MaxResults NextToken"},
    {"DescribeImages",
     "DryRun ExecutableBy Filter ImageId IncludeDeprecated IncludeDisabled MaxResults NextToken "
     "Owner"},
    {"DescribeInstanceTypeOfferings", "DryRun Filter LocationType MaxResults NextToken"},
    {"DescribeInstanceTypes",
     "DryRun Filter IncludeUnsupportedInRegion InstanceType MaxResults NextToken"},
    {"DescribeInstances", "DryRun Filter IncludeManagedResources InstanceId MaxResults NextToken"},
    {"DescribeLaunchTemplateVersions",
     "DryRun Filter IncludeManagedResources LaunchTemplateId LaunchTemplateName "
     "LaunchTemplateVersion MaxResults MaxVersion MinVersion NextToken ResolveAlias"},
    {"DescribeLaunchTemplates",
     "DryRun Filter IncludeManagedResources LaunchTemplateId LaunchTemplateName MaxResults "
     "NextToken"},
    {"DescribePlacementGroups", "DryRun Filter GroupId GroupName"},
    {"DescribeRegions", "AllRegions DryRun Filter RegionName"},
    {"DescribeSecurityGroups", "DryRun Filter GroupId GroupName MaxResults NextToken"},
    {"DescribeSnapshots", "DryRun Filter MaxResults NextToken Owner RestorableBy SnapshotId"},
    {"DescribeSpotFleetInstances", "DryRun MaxResults NextToken SpotFleetRequestId"},
    {"DescribeSpotFleetRequestHistory",
     "DryRun EventType MaxResults NextToken SpotFleetRequestId StartTime"},
    {"DescribeSpotFleetRequests", "DryRun MaxResults NextToken SpotFleetRequestId"},
    {"DescribeSpotInstanceRequests", "DryRun Filter MaxResults NextToken SpotInstanceRequestId"},
    {"DescribeSpotPriceHistory",
     "AvailabilityZone AvailabilityZoneId DryRun EndTime Filter InstanceType MaxResults "
     "NextToken ProductDescription StartTime"},
    {"DescribeSubnets", "DryRun Filter MaxResults NextToken SubnetId"},
    {"DescribeTags", "DryRun Filter MaxResults NextToken"},
    {"DescribeVolumes", "DryRun Filter IncludeManagedResources MaxResults NextToken VolumeId"},
    {"DetachVolume", "Device DryRun Force InstanceId VolumeId"},
    {"GetSpotPlacementScores",
     "DryRun InstanceRequirementsWithMetadata InstanceType MaxResults NextToken RegionName "
     "SingleAvailabilityZone TargetCapacity TargetCapacityUnitType"},
    {"ModifyFleet",
     "Context DryRun ExcessCapacityTerminationPolicy FleetId LaunchTemplateConfig "
     "TargetCapacitySpecification"},
    {"ModifySpotFleetRequest",
     "Context ExcessCapacityTerminationPolicy LaunchTemplateConfig OnDemandTargetCapacity "
     "SpotFleetRequestId TargetCapacity"},
    {"RequestSpotFleet", "DryRun SpotFleetRequestConfig"},
    {"RunInstances",
     "AdditionalInfo BlockDeviceMapping CapacityReservationSpecification ClientToken "
     "CpuOptions CreditSpecification DisableApiStop DisableApiTermination DryRun EbsOptimized "
     "ElasticGpuSpecification ElasticInferenceAccelerator EnablePrimaryIpv6 EnclaveOptions "
     "HibernationOptions IamInstanceProfile ImageId InstanceInitiatedShutdownBehavior "
     "InstanceMarketOptions InstanceType Ipv6Address Ipv6AddressCount KernelId KeyName "
     "LaunchTemplate LicenseSpecification MaintenanceOptions MaxCount MetadataOptions MinCount "
     "Monitoring NetworkInterface NetworkPerformanceOptions Operator Placement "
     "PrivateDnsNameOptions PrivateIpAddress RamdiskId SecondaryInterface SecurityGroup "
     "SecurityGroupId SubnetId TagSpecification UserData"},
    {"TerminateInstances", "DryRun Force InstanceId SkipOsShutdown"},
};

bool is_one_of(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != words.npos; at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || words[at - 1] == ' ';
    if (begins && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/ each operation, MaxResults. 0: no bound
// is documented.
struct PageSize {
  int least;
  int most;
};
const std::map<std::string, PageSize> page_sizes = {
    {"DescribeInstances", {5, 1000}},
    {"DescribeVolumes", {5, 0}},
    {"DescribeSnapshots", {5, 0}},
    {"DescribeTags", {5, 1000}},
    {"DescribeSecurityGroups", {5, 1000}},
    {"DescribeSubnets", {5, 1000}},
    {"DescribeInstanceTypes", {5, 100}},
    {"DescribeInstanceTypeOfferings", {5, 1000}},
    {"DescribeSpotInstanceRequests", {5, 1000}},
    {"DescribeSpotPriceHistory", {1, 1000}},
    {"DescribeFleets", {1, 1000}},
    {"DescribeFleetHistory", {1, 1000}},
    {"DescribeFleetInstances", {1, 1000}},
    {"DescribeSpotFleetRequests", {1, 1000}},
    {"DescribeSpotFleetInstances", {1, 1000}},
    {"DescribeSpotFleetRequestHistory", {1, 1000}},
    {"DescribeLaunchTemplates", {1, 200}},
    {"DescribeLaunchTemplateVersions", {1, 200}},
};

// "You cannot specify this parameter and the ... IDs parameter in the same request."
const std::map<std::string, const char*> ids_instead = {{"DescribeInstances", "InstanceId"},
                                                        {"DescribeVolumes", "VolumeId"},
                                                        {"DescribeSnapshots", "SnapshotId"}};

// The types of resources that an operation makes, and so can tag.
struct Taggable {
  const char* operation;
  const char* parameter;
  const char* types;
};
constexpr const char* of_launches =
    "instance volume network-interface spot-instances-request elastic-gpu";
constexpr Taggable taggable[] = {
    {"CreateVolume", "TagSpecification", "volume"},
    {"CreateSnapshot", "TagSpecification", "snapshot"},
    {"CreatePlacementGroup", "TagSpecification", "placement-group"},
    {"CreateSecurityGroup", "TagSpecification", "security-group"},
    {"CreateLaunchTemplate", "TagSpecification", "launch-template"},
    {"CreateLaunchTemplate", "LaunchTemplateData.TagSpecification", of_launches},
    {"CreateLaunchTemplateVersion", "LaunchTemplateData.TagSpecification", of_launches},
    {"RequestSpotFleet", "SpotFleetRequestConfig.TagSpecification", "spot-fleet-request"},
    {"RunInstances", "TagSpecification", of_launches},
    {"CreateFleet", "TagSpecification", "fleet"}};

std::optional<ApiError> check_names(const std::string& action, const Query& query) {
  const auto operation = operation_parameters.find(action);
  for (const auto& [name, value] : query.all()) {
    const std::string first = name.substr(0, name.find('.'));
    if (first == "Action" || first == "Version") continue;
    if (operation != operation_parameters.end() && is_one_of(operation->second, first)) continue;
    return ApiError{"UnknownParameter", "The parameter " + first + " is not recognized"};
  }
  return std::nullopt;
}

// Those of the service's history.
std::optional<ApiError> check_version(const Query& query) {
  constexpr std::string_view versions =
      "2016-11-15 2016-09-15 2016-04-01 2015-10-01 2015-04-15 2015-03-01 2014-10-01 2014-09-01";
  const std::string version = query.text("Version");
  if (version.empty() || is_one_of(versions, version)) return std::nullopt;
  return ApiError{"NoSuchVersion",
                  "The requested version (" + version + ") of service AmazonEC2 does not exist"};
}

std::optional<ApiError> check_page(const std::string& action, const Query& query) {
  const auto bounds = page_sizes.find(action);
  const auto wanted = query.integer("MaxResults");
  if (!wanted || bounds == page_sizes.end()) return std::nullopt;
  const auto [least, most] = bounds->second;
  if (*wanted < least || (most > 0 && *wanted > most))
    return ApiError{"InvalidParameterValue",
                    "Value ( " + std::to_string(*wanted) +
                        " ) for parameter maxResults is invalid. Expecting a value " +
                        (*wanted < least ? "greater than " + std::to_string(least)
                                         : "less than " + std::to_string(most)) +
                        "."};
  const auto ids = ids_instead.find(action);
  if (ids == ids_instead.end() || query.list(ids->second).empty()) return std::nullopt;
  return ApiError{"InvalidParameterCombination",
                  "The parameter " + std::string(ids->second) + " cannot be used with MaxResults"};
}

// "If the fleet type is instant, specify a resource type of fleet ... or instance": API_CreateFleet
std::optional<ApiError> check_tags(const std::string& action, const Query& query) {
  for (const Taggable& it : taggable) {
    if (action != it.operation) continue;
    std::string types = it.types;
    if (action == "CreateFleet" && query.text("Type") == "instant") types += " instance volume";
    for (const std::string& member : query.members(it.parameter)) {
      const std::string type = query.text(member + "ResourceType");
      if (!type.empty() && is_one_of(types, type)) continue;
      return ApiError{"InvalidParameterValue",
                      "'" + type + "' is not a valid taggable resource type for this operation."};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> check_parameters(const std::string& action, const Query& query) {
  if (auto wrong = check_version(query)) return wrong;
  if (auto wrong = check_names(action, query)) return wrong;
  if (auto wrong = check_page(action, query)) return wrong;
  return check_tags(action, query);
}

}  // namespace spotter::world
