// Names of botocore's service model of EC2 1.43.
#include "tests/world/ec2_names.hpp"

#include <map>
#include <set>
#include <sstream>

#include "tests/world/members.hpp"

namespace spotter::world {
namespace {

// In the form of Members, with '*' for all that are below a name.
const std::map<std::string, Members> refused_filters = {
    {"DescribeAvailabilityZones", "group-long-name message parent-zone-id parent-zone-name"},
    {"DescribeImages",
     "block-device-mapping{*} creation-date description ena-support free-tier-eligible "
     "hypervisor image-allowed image-type is-public kernel-id manifest-location owner-alias "
     "owner-id platform product-code product-code{type} ramdisk-id root-device-name "
     "root-device-type source-image-id source-image-region source-instance-id sriov-net-support "
     "state-reason-code state-reason-message virtualization-type"},
    {"DescribeInstanceStatus",
     "attached-ebs-status{status} availability-zone-id event{*} instance-status{reachability} "
     "operator{managed principal} reachability system-status{reachability}"},
    {"DescribeInstanceTypes",
     "auto-recovery-supported bare-metal burstable-performance-supported "
     "dedicated-hosts-supported ebs-info{*} free-tier-eligible hibernation-supported "
     "instance-storage-info{*} instance-storage-supported network-info{*} nitro-enclaves-support "
     "nitro-tpm-info{supported-versions} nitro-tpm-support processor-info{supported-features "
     "sustained-clock-speed-in-ghz} reboot-migration-support supported-boot-mode "
     "supported-root-device-type supported-virtualization-type vcpu-info{default-cores "
     "default-threads-per-core valid-cores valid-threads-per-core}"},
    {"DescribeInstances",
     "affinity availability-zone-id block-device-mapping{attach-time delete-on-termination "
     "status} boot-mode capacity-reservation-specification{*} "
     "current-instance-boot-mode dns-name ebs-optimized ena-support enclave-options{enabled} "
     "hibernation-options{configured} host-id hypervisor iam-instance-profile{id} "
     "instance{group-name} ipv6-address kernel-id maintenance-options{auto-recovery} "
     "metadata-options{*} network-interface{*} network-performance-options{bandwidth-weighting} "
     "operator{managed principal} outpost-arn placement-partition-number platform "
     "platform-details private-dns-name-options{*} product-code product-code{type} ramdisk-id "
     "requester-id root-device-name source-dest-check tenancy tpm-support usage-operation "
     "usage-operation-update-time virtualization-type vpc-id"},
    {"DescribeLaunchTemplateVersions",
     "ebs-optimized host-resource-group-arn http-endpoint http-protocol-ipv4 http-tokens "
     "iam-instance-profile kernel-id license-configuration-arn network-card-index ram-disk-id"},
    {"DescribeNetworkAcls", "association{association-id network-acl-id} entry{*} owner-id"},
    {"DescribePlacementGroups", "group-arn spread-level"},
    {"DescribeRouteTables",
     "association{gateway-id route-table-association-id route-table-id} route{*}"},
    {"DescribeSecurityGroups", "description egress{*} ip-permission{*} owner-id"},
    {"DescribeSnapshots", "transfer-type"},
    {"DescribeSpotInstanceRequests",
     "availability-zone-group create-time fault-code fault-message "
     "launch{block-device-mapping{*} group-id group-name kernel-id key-name monitoring-enabled "
     "ramdisk-id} launch-group launched-availability-zone-id network-interface{*} "
     "product-description spot-price status-message valid-from valid-until"},
    {"DescribeSpotPriceHistory", "availability-zone-id"},
    {"DescribeSubnets",
     "availability-zone-id available-ip-address-count cidr-block customer-owned-ipv4-pool "
     "enable-dns64 enable-lni-at-device-index ipv6-cidr-block-association{*} ipv6-native "
     "map-customer-owned-ip-on-launch map-public-ip-on-launch outpost-arn owner-id "
     "private-dns-name-options-on-launch{*} subnet-arn"},
    {"DescribeVolumeStatus", "action{*} event{*}"},
    {"DescribeVolumes", "fast-restored operator{managed principal}"},
    {"DescribeVolumesModifications", "originalMultiAttachEnabled targetMultiAttachEnabled"},
    {"DescribeVpcEndpoints", "ip-address-type service-region"},
};

constexpr const char* operation_verbs =
    "Accept Advertise Allocate Apply Assign Associate Attach Authorize Bundle Cancel Confirm "
    "Copy Create Delete Deprovision Deregister Describe Detach Disable Disassociate Enable "
    "Export Get Import List Lock Modify Monitor Move Provision Purchase Reboot Register Reject "
    "Release Replace Report Request Reset Restore Revoke Run Search Send Start Stop Terminate "
    "Unassign Unlock Unmonitor Update Withdraw";
constexpr const char* operation_words =
    "Access Account Accounts Acl Acls Active Address Addresses Admin Aggregate Allocation "
    "Allocations Allowed Analyses Analysis Analyzer Ancestry Announcement Announcements "
    "Associated Association Associations Attachment Attachments Attribute Attributes "
    "Authorization Availability Aws Billing Bin Block Blocking Blocks Bundle By Byoasn Byoip "
    "Capacity Carrier Certificate Cidr Cidrs Classic Client Coip Concentrator Concentrators "
    "Configuration Configurations Connect Connection Connections Connects Console Content "
    "Control Controls Conversion Cpu Credit Criteria Customer Data Database Datafeed Declarative "
    "Default Defaults Delegate Deprecation Deregistration Descriptions Detections Device Dhcp "
    "Diagnostic Dimensions Discovered Discoveries Discovery Dns Domain Domains Ebs Egress Ek "
    "Elastic Enabled Enclave Encryption Endpoint Endpoints Enforcement Entries Entry Event "
    "Exchange Exclusion Exclusions Export Exports Extension External Fast Filter Filters "
    "Findings Fleet Fleets Flow For Format Fpga From Gateway Gateways Gpus Group Groups Ha "
    "History Host Hosts IO Iam Id Identity Image Images Import In Ingress Insights Instance "
    "Instances Integration Integrity Interface Interfaces Internet Interrupt Interruptible Ip "
    "Ipam Ipams Ipv4 Ipv6 Key Keys Kms Lags Launch Link List Listing Listings Lists Local Locked "
    "Logging Logs Mac Maintenance Managed Manager Members Metadata Metering Metric Mirror "
    "Modification Modifications Monitored Moving Multicast Name Nat Network Networks "
    "Notification Notifications Offering Offerings Only Options Organization Organizations "
    "Outpost Output Owner Ownership Pair Pairs Password Path Paths Payer Peer Peering Peers "
    "Performance Permission Permissions Placement Policies Policy Pool Pools Prefix Preview "
    "Price Principal Private Product Profile Propagation Propagations Protection Provider "
    "Providers Pub Public Purchase Queued Quote Reachability Recycle Reference References "
    "Regions Replace Replacement Report Reports Request Requests Requirements Reservation "
    "Reservations Reserved Resolver Resolvers Resource Resources Responsibility Restore Restores "
    "Revocation Role Roles Root Route Routes Routing Rule Rules Sample Scheduled Scope Scopes "
    "Scores Screenshot Secondary Security Serial Server Servers Service Services Session "
    "Sessions Settings Sharing Snapshot Snapshots Sources Specification Specifications Splitting "
    "Spot Sql Stale Standby Start State States Status Store Subnet Subnets Subscription "
    "Subscriptions Summary Support System Table Tables Tag Tags Target Targets Task Tasks "
    "Template Templates Tenancy Tier Time To Token Tokens Topology Tpm Traffic Transfer "
    "Transfers Transit Trunk Trust Tunnel Type Types Uefi Usage Verification Verified Version "
    "Versions Vgw Virtual Visibility Volume Volumes Vpc Vpcs Vpn Window Windows Zone Zones";

std::set<std::string> set_of(const char* text) {
  std::istringstream all(text);
  std::set<std::string> found;
  for (std::string word; all >> word;) found.insert(word);
  return found;
}

// "DescribeVpcs" ends with a word after "Describe".
bool ends_in_words(std::string_view name, const std::set<std::string>& known) {
  if (name.empty()) return true;
  for (std::size_t size = 1; size <= name.size(); ++size)
    if (known.contains(std::string(name.substr(0, size))) &&
        ends_in_words(name.substr(size), known))
      return true;
  return false;
}

}  // namespace

bool is_filter_refused(const std::string& action, std::string_view filter) {
  const auto found = refused_filters.find(action);
  return found != refused_filters.end() && found->second.honours(std::string(filter));
}

bool is_ec2_operation(std::string_view name) {
  static const std::set<std::string> known_verbs = set_of(operation_verbs),
                                     known_words = set_of(operation_words);
  if (name.size() > 80) return false;
  for (std::size_t size = 1; size < name.size(); ++size)
    if (known_verbs.contains(std::string(name.substr(0, size))) &&
        ends_in_words(name.substr(size), known_words))
      return true;
  return false;
}

}  // namespace spotter::world
