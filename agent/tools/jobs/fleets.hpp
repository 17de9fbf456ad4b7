// The fleets of jobs that `spotter launch` has requested, found by their tags, and how they end.
#pragma once

#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/job/job.hpp"

namespace spotter::command {

// Which job's. What says that it was made for other storage is a namesake's, and left out; what
// says nothing was made by an earlier version.
struct JobKey {
  std::string name;     // empty: of all jobs
  std::string storage;  // config::storage_name(); empty: of any
};
JobKey key_of(const config::Job& job);

struct JobFleet {
  Fleet fleet;
  std::string job;
  std::string storage;
  wire::FleetState state = wire::FleetState::Unknown;
  int target = 0;
  std::string digest;  // of the request that made it; empty: not by `spotter launch`
  std::optional<wire::WallTime> created;
  bool prepares = false;  // of `spotter prepare`: no training

  // It launches instances, or will.
  bool is_at_work() const;
  // Nothing of it is left, and nothing comes.
  bool is_over() const;
  // A group that launches nothing keeps what it has until it is told to have none.
  bool is_suspended() const;
};

// Those tagged with this job, of every kind, over or not. The eldest first.
AwsResult<std::vector<JobFleet>> job_fleets(AwsCalls& calls, const JobKey& job);

// Of these those that are not terminated, by the tag that the launch template gives them.
AwsResult<std::vector<wire::Instance>> job_instances(AwsCalls& calls, const JobKey& job);

// Those of them that `spotter prepare` has launched.
AwsResult<std::vector<InstanceId>> preparing(AwsCalls& calls, const JobKey& job);

// What is said of two jobs of one name: on which storage each is, and to whose `what` belongs.
std::string two_jobs(const std::string& name, const std::string& ours, const std::string& theirs,
                     const std::string& what);

// Fails when fleets or instances that are there carry the name and storage other than `job`'s, or,
// where that is not given, than one another's: two jobs of one name, told by both their storages.
AwsResult<void> refuse_namesakes(AwsCalls& calls, const JobKey& job);

// Ends each. AWS may refuse some inside an answer that is a success: those are tried again some
// times; each refusal is said on stderr. Fails when one could not be ended.
AwsResult<void> end_fleets(AwsCalls& calls, const std::vector<JobFleet>& fleets,
                           bool end_instances);

// Until no instance of the job is left; says for whom it waits.
AwsResult<void> wait_for_instances_to_end(AwsCalls& calls, const JobKey& job);

std::string_view to_text(FleetKind kind);  // as launch.type has it
std::string_view to_text(wire::FleetState state);
std::string_view to_text(wire::InstanceState state);

}  // namespace spotter::command
