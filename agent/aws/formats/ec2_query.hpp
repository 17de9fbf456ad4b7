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
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "agent/aws/formats/ec2_values.hpp"
#include "agent/base/names.hpp"
#include "agent/base/result.hpp"

namespace spotter::wire {

// What it means to send a call twice.
enum class Repeatable {
  Read,   // changes nothing
  Token,  // carries a ClientToken: the second one answers as the first did
  No,     // an answer that got lost leaves the outcome unknown
};

struct Query {
  std::string service;  // "ec2" | "autoscaling"
  std::string action;
  std::string version;
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
// What has this tag, with this value and no other.
Filter tagged(std::string_view key, std::string_view value);

template <class T>
struct Page {
  std::vector<T> items;
  std::string next_token;  // empty: the last page
};

struct Done {};  // the answer of a call that says nothing but yes

struct DescribeVolumes {
  using Answer = Page<Volume>;
  std::vector<VolumeId> volumes;
  std::vector<Filter> filters;
  std::string next_token;
};

struct CreateVolume {
  using Answer = Volume;
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
  VolumeId volume;
  InstanceId instance;
  std::string device;  // /dev/sdf
};

struct DetachVolume {  // never with Force
  using Answer = Attachment;
  VolumeId volume;
  InstanceId instance;  // empty: whoever holds it
};

struct DeleteVolume {
  using Answer = Done;
  VolumeId volume;
};

struct CreateSnapshot {
  using Answer = Snapshot;
  VolumeId volume;
  std::string description;
  Tags tags;
};

struct DescribeSnapshots {  // our own (Owner=self)
  using Answer = Page<Snapshot>;
  std::vector<SnapshotId> snapshots;
  std::vector<Filter> filters;
  std::string next_token;
};

struct DeleteSnapshot {
  using Answer = Done;
  SnapshotId snapshot;
};

struct CreateTags {
  using Answer = Done;
  std::vector<std::string> resources;
  Tags tags;
};

struct DeleteTags {  // removes the keys, whatever their values are
  using Answer = Done;
  std::vector<std::string> resources;
  std::vector<std::string> keys;
};

struct DescribeInstances {
  using Answer = Page<Instance>;
  std::vector<InstanceId> instances;
  std::vector<Filter> filters;
  std::string next_token;
};

struct DescribeTags {
  using Answer = Page<ResourceTag>;
  std::vector<Filter> filters;
  std::string next_token;
};

struct TerminateInstances {
  using Answer = std::vector<InstanceChange>;
  std::vector<InstanceId> instances;
};

struct CancelSpotFleetRequests {
  using Answer = FleetCancellation;
  std::vector<FleetId> fleets;
  bool terminate_instances = true;
};

struct ModifySpotFleetRequest {
  using Answer = Done;
  FleetId fleet;
  int target_capacity = 0;
  int on_demand = 0;  // of the target; EC2 may refuse a target that is below it
  // Instances beyond the target are ended, whatever the fleet was made with: they cost money.
  bool terminate_excess = true;
};

struct DeleteFleets {
  using Answer = FleetCancellation;
  std::vector<FleetId> fleets;
  bool terminate_instances = true;
};

struct ModifyFleet {
  using Answer = Done;
  FleetId fleet;
  int target_capacity = 0;
  int on_demand = 0;             // as above
  bool terminate_excess = true;  // as above
};

struct DescribeSpotFleetRequests {
  using Answer = Page<FleetStatus>;
  std::vector<FleetId> fleets;
  std::string next_token;
};

struct DescribeFleets {
  using Answer = Page<FleetStatus>;
  std::vector<FleetId> fleets;
  std::string next_token;
};

struct DescribeSpotPriceHistory {
  using Answer = Page<SpotPrice>;
  std::vector<InstanceType> types;
  Zone zone;  // empty: all of the region
  std::vector<std::string> products{"Linux/UNIX"};
  std::optional<WallTime> start;
  std::string next_token;
};

struct DescribeAutoScalingGroups {
  using Answer = Page<FleetStatus>;
  std::vector<FleetId> groups;
  std::string next_token;
};

struct SetDesiredCapacity {  // Auto Scaling
  using Answer = Done;
  FleetId group;
  int desired_capacity = 0;
};

// Auto Scaling: TerminateInstanceInAutoScalingGroup, which takes one from the desired capacity.
struct TerminateInGroup {
  using Answer = Done;
  InstanceId instance;
};

// The lifecycle hook that holds a terminating instance until its agent has released the job.
inline constexpr const char* checkpoint_hook = "spotter-checkpoint";

struct CompleteLifecycleAction {  // Auto Scaling
  using Answer = Done;
  FleetId group;
  std::string hook = checkpoint_hook;
  InstanceId instance;
  std::string outcome = "CONTINUE";  // CONTINUE | ABANDON
};

// Each of them: tests/fuzz reads the answers of all.
using Ec2Requests =
    std::tuple<DescribeVolumes, CreateVolume, AttachVolume, DetachVolume, DeleteVolume,
               CreateSnapshot, DescribeSnapshots, DeleteSnapshot, CreateTags, DeleteTags,
               DescribeInstances, DescribeTags, TerminateInstances, CancelSpotFleetRequests,
               ModifySpotFleetRequest, DeleteFleets, ModifyFleet, DescribeSpotFleetRequests,
               DescribeFleets, DescribeSpotPriceHistory, DescribeAutoScalingGroups,
               SetDesiredCapacity, TerminateInGroup, CompleteLifecycleAction>;

Query encode(const DescribeVolumes& request);
Query encode(const CreateVolume& request);
Query encode(const AttachVolume& request);
Query encode(const DetachVolume& request);
Query encode(const DeleteVolume& request);
Query encode(const CreateSnapshot& request);
Query encode(const DescribeSnapshots& request);
Query encode(const DeleteSnapshot& request);
Query encode(const CreateTags& request);
Query encode(const DeleteTags& request);
Query encode(const DescribeInstances& request);
Query encode(const DescribeTags& request);
Query encode(const TerminateInstances& request);
Query encode(const CancelSpotFleetRequests& request);
Query encode(const ModifySpotFleetRequest& request);
Query encode(const DeleteFleets& request);
Query encode(const ModifyFleet& request);
Query encode(const DescribeSpotFleetRequests& request);
Query encode(const DescribeFleets& request);
Query encode(const DescribeSpotPriceHistory& request);
Query encode(const DescribeAutoScalingGroups& request);
Query encode(const SetDesiredCapacity& request);
Query encode(const TerminateInGroup& request);
Query encode(const CompleteLifecycleAction& request);

// Defined for each request above.
template <class Request>
Result<typename Request::Answer> decode(std::string_view xml);

}  // namespace spotter::wire
