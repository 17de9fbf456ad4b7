// One fake AWS, pure, on virtual time, seeded: no sockets, threads, clocks, files. It has two
// interfaces:
//   typed   volumes(now), snapshots(now), instances(now), fleets(now), ...: for the simulator;
//   wire    ec2(Call) -> XML as the EC2 Query API answers, auto_scaling(Call), metadata(...) as
//           IMDSv2 answers: for the emulator, which only adds HTTP, signatures, processes, devices.
// A World is a value: a copy goes its own way from the same instant.
//
// Time never goes backwards: a `now` earlier than one given before counts as that earlier one.
// Every call first lets everything that fell due happen. The host calls advance(now) after every
// other call (before it sends the answer on) and at next(), and carries the occurrences out in
// their order.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/world/cloud.hpp"
#include "tests/world/fleets.hpp"
#include "tests/world/instances.hpp"
#include "tests/world/occurrence.hpp"
#include "tests/world/pools.hpp"
#include "tests/world/settings.hpp"
#include "tests/world/snapshots.hpp"
#include "tests/world/templates.hpp"
#include "tests/world/volumes.hpp"

namespace spotter::world {

// One EC2 Query request. `parameters` are decoded and hold no signature; "Action" and "Version" may
// be among them. `caller`: an instance id, or "user" (of the credential that signed it).
struct Call {
  std::string action;
  std::map<std::string, std::string> parameters;
  std::string caller = "user";
};

struct MetadataRequest {
  std::string method;                          // GET, PUT
  std::string path;                            // /latest/..., without the query
  std::map<std::string, std::string> headers;  // names in lower case
};

struct Reply {
  int status = 200;
  std::string body;
  std::string content_type = "text/xml;charset=UTF-8";
  std::map<std::string, std::string> headers = {};  // Date (by the world's wall clock) among them
  Duration delay{0};                                // sleep this long before sending
  bool drop = false;  // send nothing: close the connection (after the delay)
};

class World {
 public:
  explicit World(Settings settings = {}, std::uint64_t seed = 0);

  // The wire.
  Reply ec2(const Call& call, Time now);
  Reply sts(const Call& call, Time now);
  Reply iam(const Call& call, Time now);
  Reply auto_scaling(const Call& call, Time now);
  Reply metadata(const InstanceId& instance, const MetadataRequest& request, Time now);
  // An answer to a request that never got as far as ec2(): SignatureDoesNotMatch, AuthFailure, ...
  Reply refuse(const ApiError& error, Time now);
  // The key that a request names; nothing when it is unknown or expired.
  std::optional<Credential> credential(std::string_view access_key, Time now);

  // Time.
  std::vector<Occurrence> advance(Time now);
  std::optional<Time> next() const;
  WallTime wall(Time time) const { return cloud_.wall(time); }
  Time time(WallTime wall) const;

  // The typed core, as of `now`. The handles refer into this World: use them at once, do not keep
  // them.
  Volumes volumes(Time now);
  Snapshots snapshots(Time now);
  Instances instances(Time now);
  Fleets fleets(Time now);
  Templates templates(Time now);
  // Applies throttling, fail_next and deny to a call of this action now; uses up one fail_next.
  Admission admit(const std::string& action, Time now);

  // Control: what AWS does by itself, and what breaks. "*" stands for every action.
  // interrupt: the notice is visible at once, the kill comes after `lead` (hibernate: at once).
  Expected<void> interrupt(const InstanceId& id, InterruptionAction action, Duration lead,
                           Time now);
  Expected<void> rebalance(const InstanceId& id, Time now);
  Expected<void> withdraw(const InstanceId& id, Time now);
  Expected<void> kill(const InstanceId& id, Time now);  // dead at once, without a notice
  // An identity without a process, running at once.
  Expected<InstanceId> add_instance(const Zone& zone, const InstanceType& type, Time now);
  void set_latency(const std::string& action, Duration latency);
  void throttle(const std::string& action, Duration duration, Time now);
  // `code`: an EC2 error code, "timeout-carried-out" (done, but the answer is lost) or
  // "timeout-lost".
  void fail_next(const std::string& action, int count, const std::string& code);
  void deny(const std::string& action, bool denied,
            const std::string& code = "UnauthorizedOperation");
  // From now on `who` ("instance": whatever role; "role/NAME": one to be assumed; "user"; another
  // name: a user of that name, whose access key is AKIA, the name in capitals and noughts) may do
  // what these IAM policies allow and nothing else; none: everything.
  Expected<void> set_policies(const std::string& who, const std::vector<std::string>& documents);
  // The number of spot instances that the zone can hold; nothing = as many as asked for. 0: no
  // capacity.
  void set_capacity(const Zone& zone, std::optional<int> instances, Time now);
  // The same of on-demand instances: those have capacity of their own.
  void set_on_demand(const Zone& zone, std::optional<int> instances, Time now);
  // Pools' spot capacity and prices, all at once (pools.hpp).
  Expected<void> set_pools(const std::vector<PoolChange>& changes, Duration lead, Time now);
  // The host tells that a volume's file system is mounted: its detach stays "busy" until it is not.
  void set_mounted(const VolumeId& volume, bool mounted, Time now);
  // A capacity reservation that ends, and what its owner does (reservations.hpp).
  Expected<std::string> reserve(CapacityReservation reservation, Time now);
  Expected<void> reclaim(const std::string& id, int instances, Duration lead, bool in_metadata,
                         Time now);
  // A fault by name (see fault_names()), with its arguments as text: durations "30s" or "250ms".
  Expected<void> fault(const std::string& name, const std::map<std::string, std::string>& arguments,
                       Time now);
  static std::vector<std::string> fault_names();  // "throttle action=A for=30s", one line each

  // The pool's prices until now.
  std::vector<Pools::Price> prices(const InstanceType& type, const Zone& zone);

  // {"now", "wall", "region", and lists: "instances", "volumes", "snapshots", "fleets", "events"}
  std::string state_json(Time now);

  const Cloud& cloud() const { return cloud_; }
  Settings& settings() { return cloud_.settings; }

 private:
  void enter(Time now);

  Cloud cloud_;
};

}  // namespace spotter::world
