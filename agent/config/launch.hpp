// `launch:` of job.yaml: what `spotter launch` requests of AWS. The agent uses of it the
// new volume's initialization rate, whether there is a reservation, and whether it is watched.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "agent/base/clock_text.hpp"
#include "agent/base/names.hpp"

namespace spotter::config {

class Reader;
struct Node;
struct Job;

// The way to choose pools of spot capacity:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-allocation-strategy.html
enum class Allocation : std::uint8_t {
  LowestPrice,
  Diversified,
  CapacityOptimized,
  PriceCapacityOptimized,
};

// Whether an instance may be on demand: `after` so long without a spot instance one is, until there
// is spot capacity again; or when a deadline needs one (launch/fallback.hpp decides).
struct OnDemand {
  enum class When : std::uint8_t { Never, After, WhenNeeded, Always };
  When when = When::Never;
  Duration after{};  // of After

  // Only `spotter watch` asks for it.
  bool needs_watcher() const { return when == When::After || when == When::WhenNeeded; }
};

// The blank volume that is made when the job has none.
struct NewVolume {
  std::uint64_t size_gib = 0;
  std::string type = "gp3";
  std::string zone;  // empty: the first of Launch::zones
  std::optional<std::uint64_t> iops;
  std::optional<std::uint64_t> throughput;  // MiB/s
  bool encrypted = false;
  std::string kms_key;
  // At which EBS loads a copy that a move makes, in MiB/s; 0: none; without one: what pays.
  std::optional<std::uint32_t> initialization_rate;
};

// The root volume of an instance.
struct RootDisk {
  std::uint64_t size_gib = 0;               // never less than the image's own; 0: that
  std::optional<std::uint64_t> throughput;  // MiB/s; gp3
};

struct Package {
  // baked (in the image) | apt | s3://BUCKET/KEY of one that is there | s3://BUCKET/PREFIX/, below
  // which the launching machine puts its own
  std::string source = "baked";
  std::string sha256;  // of s3://BUCKET/KEY: 64 lower-case hexadecimal digits
  std::string file;    // of s3://BUCKET/PREFIX/: what is sent, or the folder with it

  bool is_sent() const { return source.ends_with('/'); }
};

// The reservation that the job's instances are launched into, and that takes them back.
struct CapacityReservation {
  std::string id;              // cr-0123456789abcdef0
  bool interruptible = false;  // else a capacity block
};

// A region in which the job may run (launch.cpp).
struct Place {
  std::string region;  // empty: the one that AWS_REGION names
  std::vector<std::string> instance_types;
  std::vector<std::string> zones;    // or
  std::vector<std::string> subnets;  // neither: any zone of the default VPC
  std::vector<std::string> security_groups;
  std::string key;
  std::string image;  // ami-... | resolve:ssm:/PARAMETER
};

inline constexpr std::string_view own_placement_group = "own";  // `launch` makes it

struct Launch : Place {
  FleetKind type = FleetKind::Ec2Fleet;
  std::string profile;     // the instance profile's name or ARN
  std::string fleet_role;  // ARN; of a Spot Fleet
  Allocation allocation = Allocation::PriceCapacityOptimized;
  std::string max_price;  // dollars an hour; empty: up to the on-demand price
  int capacity = 1;
  std::string placement_group;  // a name, or own_placement_group; empty: none
  bool efa = false;             // an interface of EFA on each network card that has it
  std::vector<Place> places;    // launch.pools; the base is then the first of them
  OnDemand on_demand;
  Package package;
  std::optional<NewVolume> volume;
  std::optional<RootDisk> disk;  // as job.yaml says: root_disk()
  std::optional<CapacityReservation> reservation;
  std::map<std::string, std::string> tags;
};

// By when a job is to have finished: `spotter watch` and `spotter plan` keep it.
//
//   finish_by: 2026-12-04T18:00Z     or within: 36h, from the first launch
//   limits: {dollars: 50, gives_way: deadline | dollars}
//   launch: {on_demand: when-needed, work: 40h, start: 15m}
struct Deadline {
  std::optional<wire::WallTime> finish_by;
  std::optional<Duration> within;
  // The time that all of the training takes, until its own pace is known; and that of a start, from
  // the request to the first new step, with a move of the volume.
  std::optional<Duration> work, start;
  std::optional<double> dollars;  // as given: those of `limits` are none when they give way
  // The limit that gives way when deadline and dollars cannot both be kept.
  enum class GivesWay : std::uint8_t { Deadline, Dollars } gives_way = GivesWay::Deadline;

  bool is_set() const { return finish_by || within; }
};

// Their keys are in launch_fields() and job_fields(), and for a person in job.yaml(5).
void read_launch(Reader& reader, const Node& node, const std::string& path, Job& job);

// The launch as if the job ran in this one of its places only.
Launch launch_at(const Launch& launch, std::size_t place);

// None: the image's. A bucket's home has its working copy there, beside code and caches: more than
// the 8 GiB of a plain image. REQUIRES: job.launch.
std::optional<RootDisk> root_disk(const Job& job);

// Checks that involve other parts of the job.
void check_launch(Reader& reader, const Job& job);
// Where the dollars give way they are no limit of the job any more.
void check_deadline(Reader& reader, Job& job);

}  // namespace spotter::config
