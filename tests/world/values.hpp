// The resources of the fake AWS as plain structs, named as the EC2 API reference names them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "agent/base/names.hpp"

namespace spotter::world {

// The answer to a refused call:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
struct ApiError {
  std::string code;
  std::string message;
  int http_status = 400;
};

template <class T>
using Expected = tl::expected<T, ApiError>;

inline tl::unexpected<ApiError> refusal(std::string code, std::string message, int status = 400) {
  return tl::unexpected<ApiError>(ApiError{std::move(code), std::move(message), status});
}

using Tags = std::map<std::string, std::string>;

enum class VolumeState : std::uint8_t { Creating, Available, InUse, Deleting, Deleted, Error };
enum class AttachmentState : std::uint8_t { Attaching, Attached, Detaching, Busy };
enum class SnapshotState : std::uint8_t { Pending, Completed, Error, Recoverable, Deleted };
// In the order of the codes 0, 16, 32, 48, 64, 80 of the API's InstanceState.
enum class InstanceState : std::uint8_t {
  Pending,
  Running,
  ShuttingDown,
  Terminated,
  Stopping,
  Stopped
};
enum class FleetState : std::uint8_t {
  Submitted,
  Active,
  Modifying,
  CancelledRunning,      // of EC2 Fleet: deleted_running
  CancelledTerminating,  // of EC2 Fleet: deleted_terminating
  Cancelled              // of EC2 Fleet: deleted
};
enum class FleetType : std::uint8_t { Maintain, Request, Instant };

struct Attachment {
  InstanceId instance;
  std::string device;
  AttachmentState state = AttachmentState::Attaching;
  Time since{};
  bool present = false;  // the device has appeared (and not gone again)
  bool root = false;     // the instance's own disk, of which the host has none
  bool deletes = false;  // it goes with the instance
  bool ends = false;     // the instance is dead
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_VolumeModification.html
struct Modification {
  std::string state;  // modifying, optimizing, completed
  Time since{};
  std::optional<Time> ended;
  std::string original_type;
  std::uint64_t original_gibibytes = 0;
  std::optional<int> original_iops, original_throughput;
  std::string type;
  std::uint64_t gibibytes = 0;
  std::optional<int> iops, throughput;
};

// The blocks of a volume that was made of a snapshot, until each was touched once (cold.hpp).
struct ColdBlocks {
  double request = 0;           // MiB/s of one request in flight
  std::uint64_t gibibytes = 0;  // of the snapshot
  double warm = 0;              // MiB that were touched
  double shown = 0;             // as EC2 shows it, since ...
  Time since{};
};

struct Volume {
  VolumeId id;
  Zone zone;
  std::uint64_t gibibytes = 0;
  std::optional<SnapshotId> snapshot;
  std::string type = "gp3";
  std::optional<int> iops;
  std::optional<int> throughput;
  bool encrypted = false;
  std::string key;  // ARN or id of the KMS key; empty = the account's default, or not encrypted
  VolumeState state = VolumeState::Creating;
  std::optional<Attachment> attachment;
  Tags tags;
  Time created{};
  std::string client_token;
  std::uint64_t attempt = 0;  // counts attach, detach: an overtaken one's end is ignored
  bool mounted = false;       // as the host reported
  std::optional<Modification> modification = {};  // the last one
  std::vector<Time> modified = {};                // of each modification
  std::optional<int> initialization_rate = {};    // MiB/s
  std::optional<ColdBlocks> cold = {};            // of a snapshot
};

struct Snapshot {
  SnapshotId id;
  VolumeId volume;
  std::uint64_t gibibytes = 0;
  bool encrypted = false;
  std::string key;
  std::string description;
  SnapshotState state = SnapshotState::Pending;
  SnapshotState outcome =
      SnapshotState::Completed;  // decided by the faults of the time of the call
  Time started{};
  Time ends{};
  Tags tags;
};

// An interruption or rebalance as IMDS shows it.
struct Notice {
  InterruptionAction action = InterruptionAction::Terminate;
  Time deadline{};
  std::uint64_t number = 0;  // a withdrawn notice's kill is recognised by it
};

// An instance that its Auto Scaling group takes out, while lifecycle hooks hold it.
struct Departure {
  std::uint64_t number = 0;
  std::set<std::string> hooks;  // that nobody has completed yet
};

// A network interface that a launch asks for; its security groups and subnet.
struct Interface {
  int card = 0;
  int device = 0;
  std::string type;  // interface | efa | efa-only
  std::vector<std::string> groups;
  std::string subnet;
};

// What a launch asks of its instance besides.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html
struct LaunchExtras {
  bool monitoring = false;
  bool ebs_optimized = false;
  bool keeps_running = false;   // DisableApiStop
  bool keeps_existing = false;  // DisableApiTermination
  bool stops_itself = false;    // InstanceInitiatedShutdownBehavior
  bool public_address = false;
  bool metadata_off = false;
};

// The capacity reservation that a launch names.
struct Reserved {
  std::string id;      // cr-0123456789abcdef0; empty: none
  std::string market;  // MarketType; empty: on demand
  explicit operator bool() const { return !id.empty() || !market.empty(); }
};
inline constexpr const char* block_market = "capacity-block";
inline constexpr const char* interruptible_market = "interruptible-capacity-reservation";

// A reservation that ends (reservations.hpp).
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservation.html
struct CapacityReservation {
  std::string id;
  std::string market;  // as which instances are launched into it
  std::string source;  // the reservation that an interruptible one has its instances of
  InstanceType type;
  Zone zone;
  int total = 1;
  int target = 1;  // of an interruptible one, while its owner takes instances back
  Time begins{};
  std::optional<Time> ends = {};  // of a block
  Time created{};
  Tags tags = {};
};

struct Instance {
  InstanceId id;
  Zone zone;
  InstanceType type;
  std::string image;
  std::string key_name;
  std::string subnet;
  std::string address;    // private IPv4
  std::string user_data;  // decoded
  std::string profile;    // name or ARN of the instance profile
  std::string client_token;
  Fleet fleet;               // kind None: run by hand
  std::string spot_request;  // sir-...; empty: on demand
  std::string max_price;     // dollars an hour; empty: none
  std::string template_id;
  InstanceState state = InstanceState::Pending;
  std::optional<Notice> notice;
  std::optional<Time> rebalance;
  Tags tags;
  bool process = true;
  bool started = false;  // the host got that order, and has not yet said that it is dead
  bool metadata_tags = false;
  bool tokens_optional = false;  // IMDS answers those who ask as version 1 does, too
  Time launched{};
  std::optional<Time> died{};
  std::string reason;  // why it died: Server.SpotInstanceTermination, Client.UserInitiatedShutdown
  InterruptionAction when_interrupted = InterruptionAction::Terminate;
  std::optional<Departure> departure;
  std::string placement_group = {};
  std::vector<Interface> interfaces = {};  // empty: one that the launch did not ask for
  std::vector<std::string> security_groups = {};
  LaunchExtras extras = {};
  int hop_limit = 1;
  bool replaced = false;         // by its fleet, after a rebalance recommendation
  bool spot_cancelled = false;   // its spot request
  std::string reservation = {};  // empty: it has one of its own
  int launch_index = 0;          // of those of one RunInstances
  Tags request_tags = {};        // of its spot request
  Reserved reserved = {};
};

// How a spot request asks for capacity.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SpotMarketOptions.html
struct SpotTerms {
  bool persistent = false;
  InterruptionAction when_interrupted = InterruptionAction::Terminate;
  std::optional<Time> valid_until = {};
};

// One place where a fleet may launch: a launch specification's or override's type in one zone.
struct LaunchOption {
  std::string image;
  InstanceType type;
  Zone zone;
  std::string subnet;
  std::string user_data;  // decoded
  std::string key_name;
  std::string profile;
  std::string max_price;
  double weight = 1;
  Tags instance_tags;
  Tags request_tags = {};  // of the spot request
  bool metadata_tags = false;
  std::string http_tokens;  // "required", "optional", or empty: the account's default
  std::string template_id;  // empty: from a launch specification
  std::string template_name;
  std::string template_version;
  std::string placement_group = {};  // its name
  std::vector<std::string> security_groups = {};
  std::vector<Interface> interfaces = {};
  int hop_limit = 0;  // of the metadata service's answers; 0: not given
  std::optional<double> priority = {};
  SpotTerms terms = {};
  LaunchExtras extras = {};
  Reserved reserved = {};
};

// What a fleet does about a rebalance recommendation.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_FleetSpotCapacityRebalance.html
struct Rebalancing {
  std::optional<Duration> terminates_after = {};  // nothing: it launches alone
};

// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_LifecycleHook.html
struct LifecycleHook {
  std::string transition;  // autoscaling:EC2_INSTANCE_TERMINATING; launching ones hold nothing here
  Duration timeout{3600000};
  std::string outcome = "ABANDON";  // when the time is over
};

// The part of an Auto Scaling group that fleets do not have.
struct GroupPart {
  int least = 0;
  int most = 0;
  int on_demand_base = 0;
  int on_demand_percentage = 100;  // above the base
  std::map<std::string, LifecycleHook> hooks;
  std::set<std::string> suspended;  // processes: Launch, Terminate, ...
  std::set<std::string> at_launch;  // keys of the tags that instances get, too
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleetError.html
struct LaunchError {
  ApiError error;
  bool spot = true;
};

struct FleetRequest {
  Fleet fleet;  // and its id, which is a group's name
  FleetType type = FleetType::Maintain;
  FleetState state = FleetState::Submitted;
  int target = 1;
  int on_demand_target = 0;
  std::string allocation = "lowest-price";
  std::string on_demand_allocation = "lowest-price";
  std::optional<Rebalancing> rebalancing = {};
  std::string excess_policy = "default";
  std::string role;
  std::string client_token;
  bool terminate_with_expiration = false;
  bool replace_unhealthy = false;
  bool terminate_on_cancel = false;
  InterruptionAction when_interrupted = InterruptionAction::Terminate;
  std::optional<Time> valid_from;
  std::optional<Time> valid_until;
  std::vector<LaunchOption> options;
  Tags tags;
  Time created{};
  std::vector<InstanceId> instances;  // all that it ever launched, oldest first
  std::vector<LaunchError> errors;    // why an instant fleet launched less
  std::string reserved;               // DefaultTargetCapacityType, where it is of reservations
  std::uint64_t wake = 0;             // number of the scheduled wake-up that counts
  std::optional<Time> wakes_at;
  // The configuration as it was sent (name -> value below the config's prefix), to be echoed.
  std::map<std::string, std::string> sent;
  std::optional<GroupPart> group;  // of Auto Scaling
};

struct TemplateVersion {
  int number = 1;
  std::string description;
  Time created{};
  std::string image;
  InstanceType type;
  Zone zone;
  std::string key_name;
  std::string profile;
  std::string user_data;  // decoded
  std::string max_price;
  bool spot = false;
  Tags instance_tags;
  bool metadata_tags = false;
  std::string http_tokens;
  std::vector<std::string> security_groups = {};
  Tags volume_tags = {};
  std::string placement_group = {};
  std::vector<Interface> interfaces = {};
  int hop_limit = 0;
  SpotTerms terms = {};
  LaunchExtras extras = {};
  Reserved reserved = {};
  std::map<std::string, std::string> sent = {};  // the parameters below LaunchTemplateData
};

struct LaunchTemplate {
  std::string id;  // lt-0123456789abcdef0
  std::string name;
  Time created{};
  int default_version = 1;
  std::vector<TemplateVersion> versions;
  Tags tags;
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_PlacementGroup.html
struct PlacementGroup {
  std::string id;  // pg-0123456789abcdef0
  std::string name;
  std::string strategy;  // cluster | spread | partition
  Tags tags;
  Time available{};          // until then it is pending
  std::optional<Time> gone;  // until then it is being deleted
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html, of one source
struct SecurityRule {
  std::string protocol;  // "-1": all
  int from = -1;
  int to = -1;
  std::string group, cidr;  // one of the two
  std::string description = {};
  bool operator==(const SecurityRule& other) const {
    return protocol == other.protocol && from == other.from && to == other.to &&
           group == other.group && cidr == other.cidr;
  }
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SecurityGroup.html
struct SecurityGroup {
  std::string id;  // sg-0123456789abcdef0
  std::string name, description;
  std::vector<SecurityRule> in, out;
  Tags tags;
};

// A subnet's way to the world.
struct SubnetNetwork {
  std::string way =
      "internet";  // | nat | failed-nat | gone-nat | private-nat | transit | ipv6 | none
  bool public_addresses = true;
  bool ipv6_only = false;
  bool closed = false;  // its network ACL lets nothing through
};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_VpcEndpoint.html, in every subnet
struct NetworkEndpoint {
  std::string id;
  std::string service;  // s3, ec2, ...
  bool gateway = false;
  bool private_names = false;
  std::string policy;
  std::string group;  // of an interface
};

struct Credential {
  std::string access_key;
  std::string secret;
  std::string session_token;  // empty: a user's long-lived key
  std::string caller;         // "user" or an instance id
  std::optional<Time> expires;
};

struct HistoryEvent {
  Time at{};
  std::string kind;     // "instance-started", "volume-attached", ...
  std::string subject;  // the id of what it happened to
  std::string detail;
};

}  // namespace spotter::world
