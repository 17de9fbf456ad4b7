// The world's requests to its host: the emulator starts processes and makes loop devices, the
// simulator keeps a model. World::advance returns them in the order in which they happened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "tests/world/values.hpp"

namespace spotter::world {

struct InstanceStarted {
  InstanceId id;
  std::string user_data;  // decoded; empty when there is none
  Zone zone;
  InstanceType type;
  bool process = true;  // false: an identity only (`instance add`), run nothing
};
// The operating system is asked to shut down (ACPI power button): SIGTERM; InstanceKilled follows.
struct InstanceShuttingDown {
  InstanceId id;
};
// SIGKILL of everything that runs on the instance, now. Comes once for every InstanceStarted at
// most; a stopped instance may be started again under the same id.
struct InstanceKilled {
  InstanceId id;
};
struct VolumeMade {
  VolumeId id;
  std::optional<SnapshotId> from;
  std::uint64_t gibibytes = 0;
  std::optional<ColdBlocks> cold = {};                 // of a snapshot
  std::optional<int> initialization_rate, throughput;  // MiB/s
};
struct VolumeGrown {
  VolumeId id;
  std::uint64_t gibibytes = 0;
};
struct VolumeRemoved {
  VolumeId id;
};
// The volume's content as of this instant (of the CreateSnapshot call, not of its completion).
struct SnapshotTaken {
  SnapshotId id;
  VolumeId volume;
};
struct SnapshotCopied {
  SnapshotId id;
  SnapshotId from;
};
struct SnapshotRemoved {
  SnapshotId id;
};
struct DeviceAttached {
  VolumeId volume;
  InstanceId instance;
  std::string device;    // as asked for: /dev/sdf
  bool by_name = false;  // as on Xen: the machine shows it as /dev/xvdf, and not by its volume's id
};
// Follows a DeviceAttached of the same volume and instance.
struct DeviceDetached {
  VolumeId volume;
  InstanceId instance;
};

using Occurrence = std::variant<InstanceStarted, InstanceShuttingDown, InstanceKilled, VolumeMade,
                                VolumeGrown, VolumeRemoved, SnapshotTaken, SnapshotCopied,
                                SnapshotRemoved, DeviceAttached, DeviceDetached>;

}  // namespace spotter::world
