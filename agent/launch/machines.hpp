// Judges machines before a launch: network interfaces (EFA), types and image, ways out of the
// subnets.
//
// EFA, the network adapter with which machines that train together reach one another past the
// kernel: which network interfaces an instance gets. Pure.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html
#pragma once

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/config/job.hpp"

namespace spotter::launch {

struct Interface {  // the first device of its card
  std::uint64_t card = 0;
  std::string type;  // interface (ENA) | efa (EFA with ENA) | efa-only (without an address)

  bool operator==(const Interface&) const = default;
};
using Interfaces = std::vector<Interface>;

// Those of a type with EFA: one on each network card that has it, and an address on the first
// alone. Empty: it has no EFA, or EC2 does not say how much.
Interfaces interfaces_of(const wire::TypeSize& type);

// Those that all these types can have, since the launch template has them for every type. Fails
// where not one of them would be EFA's.
Result<Interfaces> shared_interfaces(const std::vector<wire::TypeSize>& types);

std::size_t count_efas(const Interfaces& interfaces);

// Can the machines that `launch:` names run the job? By what EC2 says of the instance types and of
// the image, before anything is made. A fleet may choose any of the types, so each has to fit.
// Pure.

// EC2's answers. Unknown values are not judged.
struct Machines {
  std::vector<wire::TypeSize> types;             // empty: unknown
  std::string image;                             // its id; empty: unknown
  std::optional<std::vector<wire::Image>> seen;  // the image; empty: there is none; none: unknown
  std::vector<std::string> packages = {};  // files that the launch sends; empty: launch.package
  wire::WallTime now{};
  // Strategy of the placement group that launch.placement_group names; empty: unknown.
  std::string named_strategy = {};
};

// Judges GPUs, architectures, the image, the number of volumes, the placement group and EFA. Fail:
// it can never work; Warn: it may not, or not for long. REQUIRES: job.launch.
Findings judge_machines(const config::Job& job, const Machines& machines);

// Can a machine in the subnets of a launch reach what the job needs? By what EC2 says of routes,
// addresses, endpoints and firewalls, before a machine costs that can do nothing. Pure.
// https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Route_Tables.html

// EC2's answers; none: unknown, and not judged. A machine has one of the groups' rules each.
struct Network {
  Region region;
  std::vector<wire::Subnet> subnets;  // in which the fleet may launch
  std::optional<std::vector<wire::RouteTable>> tables;
  std::optional<std::vector<wire::VpcEndpoint>> endpoints;
  std::optional<std::vector<wire::NatGateway>> nats;
  std::optional<std::vector<wire::NetworkAcl>> acls;
  std::optional<std::vector<wire::SecurityGroup>> groups;
  std::vector<wire::SecurityGroup> endpoint_groups = {};  // as far as they were to be seen
  // With several network interfaces a machine gets no public address, whatever the subnet says.
  bool has_several_interfaces = false;
};

// Something that the machines ask by HTTPS over IPv4.
struct Needed {
  std::string name;     // for a person: S3
  std::string service;  // as endpoints name it: s3; empty: somewhere in the internet
  bool stops = false;   // without it nothing works: a failure, else a warning
};
// The needs of this job, by its job.yaml. REQUIRES: job.launch.
std::vector<Needed> needed_by(const config::Job& job);

// Fail: a machine there surely does not reach what it needs. Warn: whether it does is not to be
// seen. One finding for all subnets that are well.
Findings judge_network(const Network& network, const std::vector<Needed>& needed);

// Can one set of a sweep on AWS Batch be placed on any of the types? Linux and ECS's agent keep
// some of a machine's memory, nobody says how much beforehand: Warn where it may be too little. A
// set that does not fit stays RUNNABLE for ever, and holds up those behind it.
// https://docs.aws.amazon.com/batch/latest/userguide/memory-management.html
Findings judge_batch(const config::Batch& batch, const std::vector<wire::TypeSize>& types);

// "x86_64", "arm64", by the name of a package (spotter_1.0_amd64.deb); else empty.
std::string_view architecture_of_package(std::string_view file);

}  // namespace spotter::launch
