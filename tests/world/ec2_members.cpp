// The members that EC2's operations honour, by the names that the Query protocol sends.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference; botocore's service model.
#include "tests/world/ec2_members.hpp"

#include <algorithm>
#include <set>
#include <sstream>

namespace spotter::world {
namespace {

namespace part {

const std::string pages = " DryRun MaxResults NextToken ";
const std::string filtered = pages + "Filter{Name Value} ";
const std::string tag = "{ResourceType Tag{Key Value}} ";
const std::string tags = " DryRun TagSpecification" + tag;
const std::string profile = " IamInstanceProfile{Arn Name} ";
const std::string named_template = "{LaunchTemplateId LaunchTemplateName Version} ";

const std::string ebs = "Ebs{DeleteOnTermination=true Iops Throughput VolumeSize VolumeType}} ";
// Fleets refuse others than the root's, as their own and as their template's (refuse_more_disks).
const std::string disk = " BlockDeviceMapping{DeviceName " + ebs;
const std::string metadata =
    " MetadataOptions{HttpEndpoint HttpProtocolIpv6=disabled HttpPutResponseHopLimit "
    "HttpTokens InstanceMetadataTags} ";
const std::string market =
    " InstanceMarketOptions{MarketType SpotOptions{InstanceInterruptionBehavior MaxPrice "
    "SpotInstanceType ValidUntil}} ";
// RunInstances and launch templates share these.
const std::string launch =
    " CapacityReservationSpecification{CapacityReservationPreference=open|none "
    "CapacityReservationTarget{CapacityReservationId}} "
    "DisableApiStop DisableApiTermination EbsOptimized "
    "EnclaveOptions{Enabled=false} HibernationOptions{Configured=false} ImageId "
    "InstanceInitiatedShutdownBehavior InstanceType KeyName "
    "MaintenanceOptions{AutoRecovery=disabled} Monitoring{Enabled} "
    "NetworkInterface{AssociatePublicIpAddress DeleteOnTermination=true DeviceIndex "
    "InterfaceType NetworkCardIndex SecurityGroupId SubnetId} "
    "Placement{AvailabilityZone AvailabilityZoneId GroupName Tenancy=default} SecurityGroup "
    "SecurityGroupId TagSpecification" +
    tag + "UserData " + profile + metadata + market;
const std::string not_launch =
    " CpuOptions CreditSpecification ElasticGpuSpecification ElasticInferenceAccelerator KernelId "
    "LicenseSpecification NetworkPerformanceOptions Operator PrivateDnsNameOptions "
    "SecondaryInterface ";
const std::string rules =
    " GroupId IpPermissions{FromPort IpProtocol ToPort Groups{Description GroupId} "
    "IpRanges{CidrIp Description}} ";
const std::string not_rules =
    "CidrIp FromPort IpProtocol SourceSecurityGroupName SourceSecurityGroupOwnerId ToPort ";
const std::string capacity =
    " TargetCapacitySpecification{DefaultTargetCapacityType OnDemandTargetCapacity "
    "SpotTargetCapacity TargetCapacityUnitType=units TotalTargetCapacity} ";
const std::string rebalance = "{CapacityRebalance{ReplacementStrategy TerminationDelay}}";
// EC2 itself refuses most of an override's Placement, and all of a Spot Fleet's.
const std::string overrides =
    " Overrides{AvailabilityZone AvailabilityZoneId InstanceType Placement{*} Priority SubnetId "
    "WeightedCapacity ";
const std::string specification_members =
    "EbsOptimized ImageId InstanceType KeyName Monitoring{Enabled} "
    "Placement{AvailabilityZone AvailabilityZoneId GroupName Tenancy=default} SubnetId UserData " +
    profile;
const std::string specification =
    " LaunchSpecifications{GroupSet{GroupId} SpotPrice TagSpecificationSet" + tag +
    "WeightedCapacity BlockDeviceMapping{DeviceName=/dev/xvda " + ebs + specification_members +
    "} ";

}  // namespace part

const std::map<std::string, Ec2Members> ec2_table = {
    {"AttachVolume", {"Device DryRun InstanceId VolumeId", "EbsCardIndex"}},
    {"CancelSpotInstanceRequests", {"DryRun SpotInstanceRequestId", ""}},
    {"CopySnapshot",
     {"Description DestinationRegion Encrypted KmsKeyId PresignedUrl SourceRegion "
      "SourceSnapshotId" +
          part::tags,
      "CompletionDurationMinutes DestinationAvailabilityZone DestinationOutpostArn"}},
    {"DescribeInstanceStatus",
     {"IncludeAllInstances IncludeManagedResources=true|false InstanceId" + part::filtered, ""}},
    {"DescribeVolumeStatus", {"IncludeManagedResources=true|false VolumeId" + part::filtered, ""}},
    {"DescribeVolumesModifications", {"VolumeId" + part::filtered, ""}},
    {"ModifyVolume",
     {"DryRun Iops MultiAttachEnabled=false Size Throughput VolumeId VolumeType", ""}},
    {"RequestSpotInstances",
     {"ClientToken DryRun InstanceCount InstanceInterruptionBehavior SpotPrice Type ValidFrom "
      "ValidUntil LaunchSpecification{" +
          part::specification_members + "SecurityGroup SecurityGroupId}" + part::tags,
      "AvailabilityZoneGroup BlockDurationMinutes LaunchGroup"}},
    {"StartInstances", {"DryRun InstanceId", "AdditionalInfo"}},
    // Nothing hangs while it shuts down.
    {"StopInstances",
     {"DryRun Force=true|false Hibernate=false InstanceId SkipOsShutdown=false", ""}},
    {"AuthorizeSecurityGroupEgress",
     {"DryRun" + part::rules, part::not_rules + "TagSpecification"}},
    {"AuthorizeSecurityGroupIngress",
     {"DryRun GroupName" + part::rules, part::not_rules + "TagSpecification"}},
    {"CancelSpotFleetRequests", {"DryRun SpotFleetRequestId TerminateInstances", ""}},
    {"CreateFleet",
     {"ClientToken ExcessCapacityTerminationPolicy LaunchTemplateConfigs{"
      "LaunchTemplateSpecification" +
          part::named_template + part::overrides +
          "ImageId MaxPrice}} OnDemandOptions{AllocationStrategy} ReplaceUnhealthyInstances "
          "SpotOptions{AllocationStrategy InstanceInterruptionBehavior MaintenanceStrategies" +
          part::rebalance +
          "} ReservedCapacityOptions{ReservationType=interruptible-capacity-reservation} "
          "TerminateInstancesWithExpiration Type ValidFrom ValidUntil" +
          part::capacity + part::tags,
      "Context"}},
    {"CreateLaunchTemplate",
     {"ClientToken LaunchTemplateName VersionDescription LaunchTemplateData{" + part::launch +
          part::disk + "}" + part::tags,
      "Operator"}},
    {"CreateLaunchTemplateVersion",
     {"ClientToken DryRun LaunchTemplateId LaunchTemplateName ResolveAlias=false SourceVersion "
      "VersionDescription LaunchTemplateData{" +
          part::launch + part::disk + "}",
      ""}},
    {"CreatePlacementGroup",
     {"GroupName Strategy" + part::tags, "LinkedGroupId Operator PartitionCount SpreadLevel"}},
    {"CreateSecurityGroup", {"GroupDescription GroupName VpcId" + part::tags, ""}},
    {"CreateSnapshot", {"Description Location=regional VolumeId" + part::tags, "OutpostArn"}},
    {"CreateTags", {"DryRun ResourceId Tag{Key Value}", ""}},
    {"CreateVolume",
     {"AvailabilityZone AvailabilityZoneId ClientToken Encrypted Iops KmsKeyId "
      "MultiAttachEnabled Size SnapshotId Throughput VolumeInitializationRate VolumeType" +
          part::tags,
      "Operator OutpostArn"}},
    {"DeleteFleets", {"DryRun FleetId TerminateInstances", ""}},
    {"DeletePlacementGroup", {"DryRun GroupName", ""}},
    {"DeleteSecurityGroup", {"DryRun GroupId GroupName", ""}},
    {"DeleteLaunchTemplate", {"DryRun LaunchTemplateId LaunchTemplateName", ""}},
    {"DeleteSnapshot", {"DryRun SnapshotId", ""}},
    {"DeleteTags", {"DryRun ResourceId Tag{Key Value}", ""}},
    {"DeleteVolume", {"DryRun VolumeId", ""}},
    // Each zone and region there is needs no opting in.
    {"DescribeAvailabilityZones",
     {"AllAvailabilityZones=true|false DryRun Filter{Name Value} ZoneId ZoneName", ""}},
    {"DescribeCapacityReservations", {"CapacityReservationId" + part::filtered, ""}},
    {"DescribeFleetHistory", {"EventType FleetId StartTime" + part::pages, ""}},
    {"DescribeFleetInstances", {"FleetId" + part::filtered, ""}},
    {"DescribeFleets", {"FleetId" + part::filtered, ""}},
    {"DescribeImages",
     {"ImageId IncludeDeprecated IncludeDisabled Owner" + part::filtered, "ExecutableBy"}},
    {"DescribeInstanceTypeOfferings", {"LocationType" + part::filtered, ""}},
    // No type and nothing managed by a service is there that is not shown anyway.
    {"DescribeInstanceTypes",
     {"IncludeUnsupportedInRegion=true|false InstanceType" + part::filtered, ""}},
    {"DescribeInstances", {"IncludeManagedResources=true|false InstanceId" + part::filtered, ""}},
    {"DescribeLaunchTemplateVersions",
     {"IncludeManagedResources=true|false LaunchTemplateId LaunchTemplateName "
      "LaunchTemplateVersion MaxVersion MinVersion ResolveAlias=false" +
          part::filtered,
      ""}},
    {"DescribeLaunchTemplates",
     {"IncludeManagedResources=true|false LaunchTemplateId LaunchTemplateName" + part::filtered,
      ""}},
    {"DescribeNatGateways", {"NatGatewayId" + part::filtered, ""}},
    {"DescribeNetworkAcls", {"NetworkAclId" + part::filtered, ""}},
    {"DescribePlacementGroups", {"DryRun Filter{Name Value} GroupId GroupName", ""}},
    {"DescribeRegions", {"AllRegions=true|false DryRun Filter{Name Value} RegionName", ""}},
    {"DescribeRouteTables", {"RouteTableId" + part::filtered, ""}},
    {"DescribeSecurityGroups", {"GroupId GroupName" + part::filtered, ""}},
    {"DescribeSnapshots", {"Owner RestorableBy SnapshotId" + part::filtered, ""}},
    {"DescribeSpotFleetInstances", {"SpotFleetRequestId" + part::pages, ""}},
    {"DescribeSpotFleetRequestHistory",
     {"EventType SpotFleetRequestId StartTime" + part::pages, ""}},
    {"DescribeSpotFleetRequests", {"SpotFleetRequestId" + part::pages, ""}},
    {"DescribeSpotInstanceRequests", {"SpotInstanceRequestId" + part::filtered, ""}},
    {"DescribeSpotPriceHistory",
     {"AvailabilityZone AvailabilityZoneId EndTime InstanceType ProductDescription StartTime" +
          part::filtered,
      ""}},
    {"DescribeSubnets", {"SubnetId" + part::filtered, ""}},
    {"DescribeTags", {part::filtered, ""}},
    {"DescribeVpcEndpoints", {"VpcEndpointId" + part::filtered, ""}},
    {"DescribeVolumes", {"IncludeManagedResources=true|false VolumeId" + part::filtered, ""}},
    {"DetachVolume", {"Device DryRun Force InstanceId VolumeId", ""}},
    {"GetSpotPlacementScores",
     {"InstanceType RegionName SingleAvailabilityZone TargetCapacity "
      "TargetCapacityUnitType=units" +
          part::pages,
      "InstanceRequirementsWithMetadata"}},
    {"ModifyFleet",
     {"DryRun ExcessCapacityTerminationPolicy FleetId" + part::capacity,
      "Context LaunchTemplateConfig"}},
    {"ModifySpotFleetRequest",
     {"ExcessCapacityTerminationPolicy OnDemandTargetCapacity SpotFleetRequestId TargetCapacity",
      "Context LaunchTemplateConfig"}},
    {"RequestSpotFleet",
     {"DryRun SpotFleetRequestConfig{AllocationStrategy ClientToken "
      "ExcessCapacityTerminationPolicy IamFleetRole InstanceInterruptionBehavior "
      "LaunchTemplateConfigs{LaunchTemplateSpecification" +
          part::named_template + part::overrides +
          "SpotPrice}} OnDemandAllocationStrategy OnDemandTargetCapacity ReplaceUnhealthyInstances "
          "SpotMaintenanceStrategies" +
          part::rebalance +
          " SpotPrice TargetCapacity TargetCapacityUnitType=units "
          "TerminateInstancesWithExpiration Type ValidFrom ValidUntil TagSpecification" +
          part::tag + part::specification + "}",
      ""}},
    {"RevokeSecurityGroupEgress",
     {"DryRun" + part::rules, part::not_rules + "SecurityGroupRuleId"}},
    {"RevokeSecurityGroupIngress",
     {"DryRun GroupName" + part::rules, part::not_rules + "SecurityGroupRuleId"}},
    {"RunInstances",
     {"ClientToken DryRun MaxCount MinCount SubnetId LaunchTemplate" + part::named_template +
          part::launch +
          "BlockDeviceMapping{DeviceName Ebs{DeleteOnTermination Encrypted Iops KmsKeyId "
          "SnapshotId Throughput VolumeSize VolumeType}}",
      "AdditionalInfo EnablePrimaryIpv6 Ipv6Address Ipv6AddressCount "
      "PrivateIpAddress RamdiskId" +
          part::not_launch}},
    // Nothing hangs while it shuts down, so force changes nothing.
    {"TerminateInstances", {"DryRun Force=true|false InstanceId SkipOsShutdown=false", ""}},
};

// The members, below others, that AWS's models have and no table does.
constexpr std::string_view elsewhere =
    "AcceleratorCount AcceleratorManufacturer AcceleratorManufacturerSet AcceleratorName "
    "AcceleratorNameSet AcceleratorTotalMemoryMiB AcceleratorType AcceleratorTypeSet "
    "AddressingType Affinity AllowedInstanceType AllowedInstanceTypeSet AmdSevSnp "
    "ArchitectureType AssociateCarrierIpAddress BandwidthWeighting BareMetal "
    "BaselineEbsBandwidthMbps BaselinePerformanceFactors BlockDurationMinutes "
    "BurstablePerformance CapacityReservationOptions "
    "CapacityReservationResourceGroupArn CidrIpv6 ClassicLoadBalancers "
    "ClassicLoadBalancersConfig ConnectionTrackingSpecification Context CoreCount Count Cpu "
    "CpuCredits CpuManufacturer CpuManufacturerSet CpuOptions CreditSpecification EbsCardIndex "
    "ElasticGpuSpecification ElasticInferenceAccelerator EnaQueueCount EnaSrdEnabled "
    "EnaSrdSpecification EnaSrdUdpEnabled EnaSrdUdpSpecification EnableResourceNameDnsAAAARecord "
    "EnableResourceNameDnsARecord ExcludedInstanceType ExcludedInstanceTypeSet FulfilledCapacity "
    "HostId HostResourceGroupArn HostnameType InstanceFamily InstanceGeneration "
    "InstanceGenerationSet InstancePoolsToUseCount InstanceRequirements Ipv4Prefix "
    "Ipv4PrefixCount Ipv6Address Ipv6AddressCount Ipv6Addresses Ipv6Prefix Ipv6PrefixCount "
    "Ipv6Ranges IsPrimaryIpv6 KernelId LicenseConfigurationArn LicenseSpecification "
    "LoadBalancersConfig LocalStorage LocalStorageType LocalStorageTypeSet Max "
    "MaxSpotPriceAsPercentageOfOptimalOnDemandPrice MaxTotalPrice MemoryGiBPerVCpu MemoryMiB Min "
    "MinTargetCapacity NestedVirtualization NetworkBandwidthGbps NetworkInterfaceCount "
    "NetworkInterfaceId NetworkInterfaceSet NetworkPerformanceOptions NoDevice "
    "OnDemandFulfilledCapacity OnDemandMaxPricePercentageOverLowestPrice OnDemandMaxTotalPrice "
    "Operator OutpostArn PartitionNumber PeeringStatus PrefixListId PrefixListIds Primary "
    "PrimaryIpv6 Principal PrivateDnsNameOptions PrivateIpAddress PrivateIpAddressCount "
    "PrivateIpAddresses RamDiskId RamdiskId Reference ReferenceSet RequireEncryptionInTransit "
    "RequireHibernateSupport SecondaryInterface SecondaryPrivateIpAddressCount "
    "SecondarySubnetId SingleInstanceType SpotMaxPricePercentageOverLowestPrice SpotMaxTotalPrice "
    "SpreadDomain TargetGroups TargetGroupsConfig TcpEstablishedTimeout ThreadsPerCore "
    "TotalLocalStorageGB UdpStreamTimeout UdpTimeout UsageStrategy UserId VCpuCount VirtualName "
    "VirtualizationType VpcPeeringConnectionId";

std::set<std::string, std::less<>> words_of_tables() {
  std::set<std::string, std::less<>> words;
  std::string all(elsewhere);
  for (const auto& [operation, members] : ec2_table)
    for (const Members* its : {&members.honoured, &members.refused})
      for (const auto& [path, values] : its->all()) all += " " + path;
  std::ranges::replace(all, '.', ' ');
  std::istringstream each(all);
  for (std::string word; each >> word;) words.insert(word);
  return words;
}

}  // namespace

const std::map<std::string, Ec2Members>& ec2_members() { return ec2_table; }

bool is_ec2_member(std::string_view name) {
  static const auto words = words_of_tables();
  return words.contains(name);
}

}  // namespace spotter::world
