// The whole state of the fake AWS as one copyable value, and the few things that all its parts
// share: time, chance, the agenda of what falls due, the occurrences for the host, faults and
// permissions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/world/admissions.hpp"
#include "tests/world/iam_values.hpp"
#include "tests/world/occurrence.hpp"
#include "tests/world/random.hpp"
#include "tests/world/settings.hpp"
#include "tests/world/table.hpp"
#include "tests/world/values.hpp"

namespace spotter::world {

// Happenings that fall due. Each names its attempt, so that an overtaken one does nothing.
struct VolumeReady {
  VolumeId id;
};
struct VolumeVanishes {
  VolumeId id;
};
struct AttachEnds {
  VolumeId id;
  std::uint64_t attempt;
};
struct DeviceAppears {
  VolumeId id;
  std::uint64_t attempt;
};
struct DetachEnds {
  VolumeId id;
  std::uint64_t attempt;
};
struct ModificationProceeds {
  VolumeId id;
};
struct SnapshotEnds {
  SnapshotId id;
};
struct InstanceRuns {
  InstanceId id;
};
struct ShutDownEnds {
  InstanceId id;
};
struct FleetTagged {
  InstanceId id;
  std::string key;
  std::string value;
};
struct InterruptionDue {
  InstanceId id;
  std::uint64_t notice;
};
struct ReplacedEnds {
  InstanceId id;
};
struct FleetWakes {
  FleetId id;
  std::uint64_t wake;
};
struct CapacityReturns {
  Zone zone;
};
struct HookTimesOut {
  InstanceId id;
  std::uint64_t departure;
  std::string hook;
};
struct IamReaches {
  std::string who;  // "role/NAME" or a user's name
};
struct BlockEnds {
  std::string id;
};
struct ReclaimEnds {
  std::string id;
  std::uint64_t number;
};
struct ReservedEnds {
  InstanceId id;
};
using Happening =
    std::variant<VolumeReady, VolumeVanishes, AttachEnds, DeviceAppears, DetachEnds,
                 ModificationProceeds, SnapshotEnds, InstanceRuns, ShutDownEnds, FleetTagged,
                 InterruptionDue, ReplacedEnds, FleetWakes, CapacityReturns, HookTimesOut,
                 IamReaches, BlockEnds, ReclaimEnds, ReservedEnds>;

// Misbehaviour of the volume or snapshot machinery, switched on by World::fault.
struct StorageFaults {
  std::optional<Time> attach_hangs_until;
  std::optional<Time> attach_busy_until;  // an attachment made until then stays `busy`
  std::optional<Time> detach_hangs_until;
  Duration device_late{0};                 // from `attached` until the machine has the device
  bool device_by_name = false;             // as on Xen: /dev/xvdf, and no link by the volume's id
  int devices_to_hide = 0;                 // the next attachments bring no device
  int volumes_to_fail = 0;                 // the next CreateVolumes end in `error`
  bool key_forbidden = false;              // an encrypted volume vanishes after CreateVolume's 200
  int snapshots_to_fail = 0;               // the next CreateSnapshots end in `error`
  int snapshots_to_recover = 0;            // the next CreateSnapshots end in `recoverable`
  std::optional<Duration> snapshot_takes;  // instead of Settings::snapshot
};

// IMDS's behaviour instead of an answer, by the names of `fault imds MODE`.
struct MetadataFault {
  std::string mode;  // down slow 401 403 429 500 empty garbage half
  Time until{};
  Duration delay{0};  // of slow
};

struct MetadataToken {
  InstanceId instance;
  Time expires{};
};

struct Capacity {
  std::optional<int> limit;      // how many spot instances fit; nothing: any number
  std::optional<int> on_demand;  // the same of on-demand instances
  Time empty_until{};            // an interruption took the spot capacity away until then
};

// An instance type in a zone, once a market was set (pools.hpp).
struct SpotPool {
  bool available = true;
  std::vector<std::pair<Time, double>> prices;  // dollars an hour, and since when; never empty
};

class Access;  // access.hpp

struct Cloud {
  Cloud(Settings settings_given, std::uint64_t seed);

  Settings settings;
  Random random;
  Random cold_random;  // what the blocks of a snapshot take: other draws stay as they are
  Time now{};
  std::multimap<Time, Happening> agenda;  // equal times keep the order of their scheduling
  std::vector<Occurrence> occurrences;    // not yet taken by the host
  std::vector<HistoryEvent> history;

  Table<VolumeId, Volume> volumes;
  Table<SnapshotId, Snapshot> snapshots;
  Table<InstanceId, Instance> instances;
  Table<FleetId, FleetRequest> fleets;
  std::map<std::string, LaunchTemplate> templates;          // by id
  std::map<std::string, PlacementGroup> placement_groups;   // by name
  std::map<std::string, SecurityGroup> security_groups;     // by id
  std::map<std::string, CapacityReservation> reservations;  // by id
  std::map<std::string, std::uint64_t> reclaims;            // the last of a reservation
  std::map<std::string, SubnetNetwork> subnets;             // by id: those that a fault changed
  std::vector<NetworkEndpoint> endpoints;
  std::map<std::string, VolumeId> volume_tokens;            // ClientToken -> what it made
  std::map<std::string, std::string> volume_token_digests;  // ClientToken -> the call's parameters
  // By operation and ClientToken: the parameters and the answer, of those that keep no token.
  std::map<std::string, std::pair<std::map<std::string, std::string>, std::string>> answered;
  std::map<VolumeId, std::vector<Time>> snapshot_times;  // the calls, for the limits
  std::map<Zone, Capacity> capacity;
  std::map<std::pair<InstanceType, Zone>, SpotPool> pools;
  std::map<std::string, MetadataToken> metadata_tokens;
  std::map<std::string, Credential> credentials;  // by access key

  Admissions admissions;
  StorageFaults storage_faults;
  IamAccount iam;
  std::shared_ptr<const Access> access = {};  // nothing: everybody may do everything
  std::set<std::pair<std::string, std::string>> not_offered;  // an instance type and a zone
  double rate_dollars = 0;  // billed for all rates of initialization
  int cancels_to_fail = 0;  // the next ids of a cancel that get unexpectedError
  std::map<InstanceId, MetadataFault> metadata_faults;  // empty id: every instance

  WallTime wall(Time time) const { return settings.origin + time.time_since_epoch(); }
  Duration lag() {
    return settings.consistency_lag.count() ? random.up_to(settings.consistency_lag) : Duration{0};
  }
  void schedule(Duration later, Happening what) { agenda.emplace(now + later, std::move(what)); }
  void occur(Occurrence occurrence) { occurrences.push_back(std::move(occurrence)); }
  void record(std::string kind, std::string subject, std::string detail = {});
  bool has_zone(const Zone& zone) const;
  // The secret of a key that is given out. Not of chance alone, whose course the ids show, which
  // everybody may see: who does not know the user's secret cannot tell it.
  std::string secret_of(const std::string& access_key);
  // A number for notices, attempts and wakes: never the same twice.
  std::uint64_t number() { return ++numbers; }

  std::uint64_t numbers = 0;
};

// Lets everything up to `until` happen, then it is `until`.
void run_agenda(Cloud& cloud, Time until);

// "2026-01-01T00:00:00.000Z" as in XML answers, "2026-01-01T00:00:00Z" as in IMDS, and the Date
// header.
std::string xml_time(WallTime time);
std::string metadata_time(WallTime time);
std::string http_date(WallTime time);
std::optional<WallTime> parse_time(const std::string& text);  // of ISO 8601, UTC

}  // namespace spotter::world
