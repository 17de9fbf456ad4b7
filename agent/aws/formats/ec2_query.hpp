// EC2's things as values. Source:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Types.html
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "agent/base/clock_text.hpp"
#include "agent/base/names.hpp"

namespace spotter::wire {

using Tags = std::map<std::string, std::string>;

// In every state below, Unknown stands for a word that AWS has added since.
enum class VolumeState { Creating, Available, InUse, Deleting, Deleted, Error, Unknown };
enum class AttachmentState { Attaching, Attached, Detaching, Detached, Busy, Unknown };
enum class SnapshotState { Pending, Completed, Error, Recoverable, Recovering, Unknown };
enum class InstanceState {
  Pending,
  Running,
  ShuttingDown,
  Terminated,
  Stopping,
  Stopped,
  Unknown,
};
// A Spot Fleet is "cancelled", an EC2 Fleet "deleted": one thing under two names. An Auto Scaling
// group that wants no instance is it, too; one that may not launch any is CancelledRunning.
enum class FleetState {
  Submitted,
  Active,
  Modifying,
  Failed,
  CancelledRunning,      // starts nothing, its instances run on
  CancelledTerminating,  // starts nothing, its instances are being terminated
  Cancelled,
  Unknown,
};

struct Attachment {
  static constexpr std::string_view keys = "volumeId! instanceId device status!";
  VolumeId volume;
  InstanceId instance;  // empty for a holder that is no EC2 instance
  std::string device;   // /dev/sdf, as asked for
  AttachmentState state = AttachmentState::Unknown;
};

struct Volume {
  static constexpr std::string_view keys =
      "volumeId! availabilityZone! status! volumeType! size! iops throughput encrypted kmsKeyId "
      "snapshotId volumeInitializationRate attachmentSet tagSet createTime!";
  VolumeId id;
  Zone zone;
  VolumeState state = VolumeState::Unknown;
  std::string type;  // gp3
  std::uint64_t size_gib = 0;
  std::optional<std::uint64_t> iops;        // absent for types that have none
  std::optional<std::uint64_t> throughput;  // MiB/s; gp3 only
  bool encrypted = false;
  std::string kms_key;                               // ARN; empty: none
  SnapshotId from_snapshot;                          // empty: made blank
  std::optional<std::uint64_t> initialization_rate;  // MiB/s, at which EBS loads it
  std::vector<Attachment> attachments;
  Tags tags;
  WallTime create_time;
};

struct Snapshot {
  static constexpr std::string_view keys =
      "snapshotId! volumeId! status! - volumeSize! startTime! description tagSet";
  SnapshotId id;
  VolumeId volume;
  SnapshotState state = SnapshotState::Unknown;
  int progress = 0;  // per cent
  std::uint64_t size_gib = 0;
  WallTime start_time;
  std::string description;
  Tags tags;
};

struct Instance {
  static constexpr std::string_view keys =
      "instanceId! instanceState.name! placement.availabilityZone! instanceType! "
      "instanceLifecycle launchTime imageId stateReason.code tagSet capacityReservationId";
  InstanceId id;
  InstanceState state = InstanceState::Unknown;
  Zone zone;
  InstanceType type;
  std::string lifecycle;  // "spot", "capacity-block", ... | "" (on demand)
  std::optional<WallTime> launch_time;
  std::string image;
  std::string reason;  // why it ended: "Client.InstanceInitiatedShutdown", ...
  Tags tags;
  std::string reservation = {};  // cr-...: of capacity, in which it runs; empty: none
};

// "We begin terminating the instances 30 minutes before the end time of the Capacity Block":
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-how.html
inline constexpr std::chrono::minutes block_clears_in{30};

// A capacity reservation.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservation.html
struct CapacityReservation {
  static constexpr std::string_view keys =
      "capacityReservationId! state! instanceType! availabilityZone! - availableInstanceCount! "
      "startDate endDate interruptible interruptionInfo.sourceCapacityReservationId "
      "interruptibleCapacityAllocation.targetInstanceCount";
  std::string id;
  std::string state;  // scheduled | active | expired | cancelled | ...
  InstanceType type;
  Zone zone;
  bool is_block = false;  // a capacity block: its instances end with it
  std::uint64_t available = 0;
  std::optional<WallTime> begins, ends;
  bool interruptible = false;
  std::string source;                 // of such a one, if it is shown: whose instances it has; ...
  std::optional<std::uint64_t> lent;  // ... and of that one, how many it is to go on lending
};

// A cancellation may fail fleet by fleet inside an answer 200.
struct FleetFailure {
  FleetId id;
  std::string code;  // fleetRequestIdDoesNotExist | fleetIdDoesNotExist | unexpectedError | ...
  std::string message;
};

// A version of a launch template that instances are launched from.
struct TemplateInUse {
  std::string id, version;
  bool operator==(const TemplateInUse&) const = default;
};

struct FleetStatus {
  FleetId id;
  FleetState state = FleetState::Unknown;
  int target_capacity = 0;
  int on_demand = 0;  // of the target
  std::string type;   // request | maintain | instant
  std::optional<WallTime> create_time;
  std::optional<WallTime> valid_until;  // then it ends, with its machines if it was so asked
  TemplateInUse launch_template = {};   // the first one; empty: it names none
  Tags tags;
};

struct SpotPrice {
  static constexpr std::string_view keys =
      "availabilityZone! instanceType! productDescription! spotPrice! timestamp!";
  Zone zone;
  InstanceType type;
  std::string product;  // Linux/UNIX
  double dollars_per_hour = 0;
  WallTime since;
};

// The Query APIs of EC2 and Auto Scaling: values -> form parameters, XML answers -> values. No I/O.
//
//   Query query = encode(DescribeVolumes{.filters = {{"tag:Name", {"mnist-volume"}}}});
//   std::string body = form_body(query);
//   Result<Page<Volume>> page = decode<DescribeVolumes>(xml);
//
// A decoder skips elements that it does not know and fails on a missing one that it needs, on
// anything that is no XML, on half a document and on another action's answer. Sources:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/ (version 2016-11-15) and
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/ (version 2011-01-01).

// The effect of sending a call twice.
enum class Repeatable {
  Read,   // changes nothing
  Token,  // carries a ClientToken: the second one answers as the first did
  No,     // an answer that got lost leaves the outcome unknown
};

struct Query {
  std::string service;  // "ec2" | "autoscaling"
  std::string action;
  Repeatable repeatable = Repeatable::No;
  std::map<std::string, std::string> parameters;  // without Action and Version
  Region region = {};                             // that it is sent to; empty: the client's own
};

// application/x-www-form-urlencoded, sorted by name, escaped as RFC 3986 has it (a space is %20).
std::string form_body(const Query& query);
std::string escape(std::string_view text);

struct Filter {
  std::string name;
  std::vector<std::string> values;  // patterns: * any text, ? any letter
};
// The pattern that this text alone matches.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html
std::string exactly(std::string_view text);
// Matches things that have this tag, with this value and no other.
Filter tagged(std::string_view key, std::string_view value);

template <class T>
struct Page {
  std::vector<T> items;
  std::string next_token;  // empty: the last page
};

// A request as AWS's API has it.
struct Api {
  const char* action;
  const char* items = "";  // the element that has a page's items
  // Under which name each field is sent, and constants behind them: "VolumeId Filter Owner.1=self".
  // Empty: ec2_encode.cpp says it.
  std::string_view fields = {};
  const char* service = "ec2";
};

struct Done {};  // the answer of a call that says nothing but yes

struct DescribeVolumes {
  using Answer = Page<Volume>;
  static constexpr Api api{"DescribeVolumes", "volumeSet", "VolumeId Filter NextToken"};
  std::vector<VolumeId> volumes;
  std::vector<Filter> filters;
  std::string next_token;
};

struct CreateVolume {
  using Answer = Volume;
  static constexpr Api api{"CreateVolume"};
  Zone zone;
  SnapshotId from;             // empty: blank
  std::string type;            // empty: EC2's default
  std::uint64_t size_gib = 0;  // 0: the snapshot's size
  std::optional<std::uint64_t> iops;
  std::optional<std::uint64_t> throughput;
  std::optional<std::uint64_t> initialization_rate;  // MiB/s, 100 to 300; of a snapshot only
  std::optional<bool> encrypted;
  std::string kms_key;
  Tags tags;
  std::string client_token;  // empty: none, and then the call is not repeatable
};

struct AttachVolume {
  using Answer = Attachment;
  static constexpr Api api{"AttachVolume", "", "VolumeId InstanceId Device"};
  VolumeId volume;
  InstanceId instance;
  std::string device;  // /dev/sdf
};

struct DetachVolume {  // never with Force
  using Answer = Attachment;
  static constexpr Api api{"DetachVolume", "", "VolumeId InstanceId"};
  VolumeId volume;
  InstanceId instance;  // empty: whoever holds it
};

struct DeleteVolume {
  using Answer = Done;
  static constexpr Api api{"DeleteVolume", "", "VolumeId"};
  VolumeId volume;
};

struct CreateSnapshot {
  using Answer = Snapshot;
  static constexpr Api api{"CreateSnapshot"};
  VolumeId volume;
  std::string description;
  Tags tags;
};

struct DescribeSnapshots {  // our own (Owner=self)
  using Answer = Page<Snapshot>;
  static constexpr Api api{"DescribeSnapshots", "snapshotSet",
                           "SnapshotId Filter NextToken Owner.1=self"};
  std::vector<SnapshotId> snapshots;
  std::vector<Filter> filters;
  std::string next_token;
};

struct DeleteSnapshot {
  using Answer = Done;
  static constexpr Api api{"DeleteSnapshot", "", "SnapshotId"};
  SnapshotId snapshot;
};

struct CreateTags {
  using Answer = Done;
  static constexpr Api api{"CreateTags", "", "ResourceId Tag"};
  std::vector<std::string> resources;
  Tags tags;
};

struct DescribeInstances {
  using Answer = Page<Instance>;
  static constexpr Api api{"DescribeInstances", "", "InstanceId Filter NextToken"};
  std::vector<InstanceId> instances;
  std::vector<Filter> filters;
  std::string next_token;
};

struct DescribeCapacityReservations {
  using Answer = Page<CapacityReservation>;
  static constexpr Api api{"DescribeCapacityReservations", "capacityReservationSet",
                           "CapacityReservationId NextToken"};
  std::vector<std::string> reservations;
  std::string next_token = {};
};

struct TerminateInstances {
  using Answer = Done;
  static constexpr Api api{"TerminateInstances", "", "InstanceId"};
  std::vector<InstanceId> instances;
};

struct CancelSpotFleetRequests {
  using Answer = std::vector<FleetFailure>;
  static constexpr Api api{"CancelSpotFleetRequests", "", "SpotFleetRequestId TerminateInstances"};
  std::vector<FleetId> fleets;
  bool terminate_instances = true;
};

struct ModifySpotFleetRequest {
  using Answer = Done;
  static constexpr Api api{"ModifySpotFleetRequest"};
  FleetId fleet;
  int target_capacity = 0;
  int on_demand = 0;  // of the target; EC2 may refuse a target that is below it
  // Instances beyond the target are ended, whatever the fleet was made with: they cost money.
  bool terminate_excess = true;
};

struct DeleteFleets {
  using Answer = std::vector<FleetFailure>;
  static constexpr Api api{"DeleteFleets", "", "FleetId TerminateInstances"};
  std::vector<FleetId> fleets;
  bool terminate_instances = true;
};

struct ModifyFleet {
  using Answer = Done;
  static constexpr Api api{"ModifyFleet"};
  FleetId fleet;
  int target_capacity = 0;
  int on_demand = 0;             // as above
  bool terminate_excess = true;  // as above
};

struct DescribeSpotFleetRequests {
  using Answer = Page<FleetStatus>;
  static constexpr Api api{"DescribeSpotFleetRequests", "spotFleetRequestConfigSet",
                           "SpotFleetRequestId NextToken"};
  std::vector<FleetId> fleets;
  std::string next_token;
};

struct DescribeFleets {
  using Answer = Page<FleetStatus>;
  static constexpr Api api{"DescribeFleets", "fleetSet", "FleetId NextToken"};
  std::vector<FleetId> fleets;
  std::string next_token;
};

struct DescribeSpotPriceHistory {
  using Answer = Page<SpotPrice>;
  static constexpr Api api{
      "DescribeSpotPriceHistory", "spotPriceHistorySet",
      "InstanceType AvailabilityZone StartTime NextToken ProductDescription.1=Linux/UNIX"};
  std::vector<InstanceType> types;
  Zone zone;  // empty: all of the region
  std::optional<WallTime> start;
  std::string next_token;
};

struct DescribeAutoScalingGroups {
  using Answer = Page<FleetStatus>;
  static constexpr Api api{.action = "DescribeAutoScalingGroups",
                           .fields = "AutoScalingGroupNames.member NextToken",
                           .service = "autoscaling"};
  std::vector<FleetId> groups;
  std::string next_token;
};

struct SetDesiredCapacity {  // Auto Scaling
  using Answer = Done;
  static constexpr Api api{.action = "SetDesiredCapacity",
                           .fields = "AutoScalingGroupName DesiredCapacity HonorCooldown=false",
                           .service = "autoscaling"};
  FleetId group;
  int desired_capacity = 0;
};

// Auto Scaling: TerminateInstanceInAutoScalingGroup, which takes one from the desired capacity.
struct TerminateInGroup {
  using Answer = Done;
  static constexpr Api api{.action = "TerminateInstanceInAutoScalingGroup",
                           .fields = "InstanceId ShouldDecrementDesiredCapacity=true",
                           .service = "autoscaling"};
  InstanceId instance;
};

// The lifecycle hook that holds a terminating instance until its agent has released the job.
inline constexpr const char* checkpoint_hook = "spotter-checkpoint";

struct CompleteLifecycleAction {  // Auto Scaling
  using Answer = Done;
  static constexpr Api api{.action = "CompleteLifecycleAction", .service = "autoscaling"};
  FleetId group;
  InstanceId instance;
};

// Each of them: tests/fuzz reads the answers of all.
using Ec2Requests =
    std::tuple<DescribeVolumes, CreateVolume, AttachVolume, DetachVolume, DeleteVolume,
               CreateSnapshot, DescribeSnapshots, DeleteSnapshot, CreateTags, DescribeInstances,
               DescribeCapacityReservations, TerminateInstances, CancelSpotFleetRequests,
               ModifySpotFleetRequest, DeleteFleets, ModifyFleet, DescribeSpotFleetRequests,
               DescribeFleets, DescribeSpotPriceHistory, DescribeAutoScalingGroups,
               SetDesiredCapacity, TerminateInGroup, CompleteLifecycleAction>;

// Both are defined for each request above, and for those of ec2_places.hpp.
template <class Request>
requires requires { Request::api; }
Query encode(const Request& request);
template <class Request>
Result<typename Request::Answer> decode(std::string_view xml);

// Parts of EC2's answers that are read and shown in more than one place.

// Empty: there is no such tag, or it has no value.
inline std::string value_of(const Tags& tags, const std::string& key) {
  const auto found = tags.find(key);
  return found == tags.end() ? std::string() : found->second;
}

inline std::string_view to_text(VolumeState state) {
  constexpr std::string_view words[] = {"creating", "available", "in-use", "deleting",
                                        "deleted",  "error",     "unknown"};
  return words[static_cast<std::size_t>(state)];
}

// The fleet could not be ended because it is gone, or is ending already.
inline bool is_ended_already(const FleetFailure& failed) {
  const auto says = [&](const char* word) { return failed.code.find(word) != std::string::npos; };
  return says("DoesNotExist") || says("NotInCancellableState") || says("NotInDeletableState");
}

}  // namespace spotter::wire
