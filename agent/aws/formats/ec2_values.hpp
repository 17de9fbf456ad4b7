// EC2's things as values. Source:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Types.html
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

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
  VolumeId volume;
  InstanceId instance;  // empty for a holder that is no EC2 instance
  std::string device;   // /dev/sdf, as asked for
  AttachmentState state = AttachmentState::Unknown;
  bool delete_on_termination = false;
};

struct Volume {
  VolumeId id;
  Zone zone;
  VolumeState state = VolumeState::Unknown;
  std::string type;  // gp3
  std::uint64_t size_gib = 0;
  std::optional<std::uint64_t> iops;        // absent for types that have none
  std::optional<std::uint64_t> throughput;  // MiB/s; gp3 only
  bool encrypted = false;
  std::string kms_key;       // ARN; empty: none
  SnapshotId from_snapshot;  // empty: made blank
  std::vector<Attachment> attachments;
  Tags tags;
  WallTime create_time;
};

struct Snapshot {
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
  InstanceId id;
  InstanceState state = InstanceState::Unknown;
  Zone zone;
  InstanceType type;
  std::string lifecycle;  // "spot" | "scheduled" | "" (on demand)
  std::optional<WallTime> launch_time;
  std::string image;
  Tags tags;
};

struct ResourceTag {
  std::string resource;
  std::string resource_type;  // "instance", "volume", ...
  std::string key;
  std::string value;
};

struct InstanceChange {
  InstanceId id;
  InstanceState previous = InstanceState::Unknown;
  InstanceState current = InstanceState::Unknown;
};

struct FleetFailure {
  FleetId id;
  std::string code;  // fleetRequestIdDoesNotExist | fleetIdDoesNotExist | unexpectedError | ...
  std::string message;
};

// A cancellation may fail fleet by fleet inside an answer 200.
struct FleetCancellation {
  struct Cancelled {
    FleetId id;
    FleetState current = FleetState::Unknown;
  };
  std::vector<Cancelled> cancelled;
  std::vector<FleetFailure> failed;
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
  double fulfilled_capacity = 0;
  std::string type;  // request | maintain | instant
  std::optional<WallTime> create_time;
  TemplateInUse launch_template = {};  // the first one; empty: it names none
  Tags tags;
};

struct SpotPrice {
  Zone zone;
  InstanceType type;
  std::string product;  // Linux/UNIX
  double dollars_per_hour = 0;
  WallTime since;
};

}  // namespace spotter::wire
