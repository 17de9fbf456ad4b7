// Combines what is known of a job from outside: EC2's volumes, machines and fleets, and what its
// agents published. No I/O.
#pragma once

#include <nlohmann/json.hpp>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/commands/fleets.hpp"
#include "agent/commands/report_sources.hpp"

namespace spotter::command {

struct JobSeen {
  std::string job;
  std::vector<wire::Volume> volumes;      // of the job, with copies
  std::vector<wire::Snapshot> snapshots;  // of a move
  std::vector<wire::Instance> instances;  // including ended ones
  std::vector<JobFleet> fleets;
  std::map<std::string, double> on_demand_prices;  // dollars an hour of types that run on demand
  std::optional<Published> published;
  bool publishes = false;             // it is known where
  std::optional<wire::WallTime> due;  // by when it is to have finished
  std::string launches_nothing = {};  // why its fleet does not, as AWS says it
  std::string role_lacks = {};  // "NAME may not: ec2:AttachVolume": of a machine that is silent
  double now = 0;               // seconds since 1970

  bool is_nothing() const {
    return volumes.empty() && instances.empty() && fleets.empty() && !published;
  }
};

// A machine is up, and nothing has come of it for ten minutes.
bool is_silent(const JobSeen& seen);

// A document like status.json (wire/status.hpp), with EC2's data: "stage", "says", "instance",
// "volume" and "fleet" are current; "cloud" has all of it. Ignores an invalid published status.
nlohmann::json view_of(const JobSeen& seen);

// The boot clock that belongs to it, for wire::status_text().
Time clock_of(const nlohmann::json& view, double now);

// One line of a sweep's table.
std::string line_of(const nlohmann::json& view, std::size_t experiment, double now);

}  // namespace spotter::command
