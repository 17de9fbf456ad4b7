// The fleets of jobs that `spotter launch` requested, found by their tags, and how to end them.
#pragma once

#include "agent/aws/aws_calls.hpp"
#include "agent/config/job.hpp"

namespace spotter::command {

// Identifies a job. Things made for other storage belong to a namesake, and are left out; earlier
// versions did not tag the storage.
struct JobKey {
  std::string name;     // empty: all jobs
  std::string storage;  // config::storage_name(); empty: any
};
JobKey key_of(const config::Job& job);

struct JobFleet {
  Fleet fleet;
  std::string job;
  std::string storage;
  wire::FleetState state = wire::FleetState::Unknown;
  int target = 0;
  std::string digest;  // of the request that made it; empty: not made by `spotter launch`
  std::optional<wire::WallTime> created;
  std::string role;     // of `spotter prepare`'s and of on-demand fleets beside the job's own
  std::string watched;  // its tag (launch/fallback.hpp),
  std::string rests;    // and that of a rest
  wire::TemplateInUse launch_template = {};
  std::optional<wire::WallTime> first_launch = {};  // of the job, as its tag says
  std::string regions = {};                         // of a job with several: launch/places.hpp
  std::optional<wire::WallTime> ends = {};          // by itself, with its machines
  bool instant = false;  // it has launched all that it launches, and can only be ended

  // It is the job's own: trains, and waits for spot capacity unless all of it is on demand.
  bool is_own() const;
  // It launches instances now or later.
  bool is_at_work() const;
  // It has no instances, and launches none.
  bool is_over() const;
  // A group that launches nothing, but keeps the instances that it has.
  bool is_suspended() const;
};

// All fleets with this job's tag, of every kind, over or not. The oldest first.
Result<std::vector<JobFleet>, CallError> job_fleets(AwsCalls& calls, const JobKey& job);

// Their instances that are not terminated, by the tag that the launch template sets.
Result<std::vector<wire::Instance>, CallError> job_instances(AwsCalls& calls, const JobKey& job);

// Those that EC2 still shows, terminated ones too.
Result<std::vector<wire::Instance>, CallError> all_job_instances(AwsCalls& calls,
                                                                 const JobKey& job);

// Those of the instances that `spotter prepare` launched.
Result<std::vector<InstanceId>, CallError> preparing(AwsCalls& calls, const JobKey& job);

// The message about two jobs of one name: the storage of each, and to which one `what` belongs.
std::string two_jobs(const std::string& name, const std::string& ours, const std::string& theirs,
                     const std::string& what);

// Fails when existing fleets or instances have the name but other storage than `job`, or, if that
// has none, than one another: two jobs of one name. The message names both storages. Returns the
// storage of both; empty: nothing there has one.
Result<std::string, CallError> refuse_namesakes(AwsCalls& calls, const JobKey& job);

// Ends each fleet. AWS may refuse some in a successful answer: those are tried again a few times,
// and each refusal is printed to stderr. Fails when one could not be ended.
Result<void, CallError> end_fleets(AwsCalls& calls, const std::vector<JobFleet>& fleets,
                                   bool end_instances);

// The newest of the last hour's failures to launch an instance, as AWS says it; empty: there is
// none, or the fleet's history cannot be read.
std::string launch_failure(AwsCalls& calls, const JobFleet& fleet);

// Waits until the job has no instance left, and prints for which it waits.
Result<void, CallError> wait_for_instances_to_end(AwsCalls& calls, const JobKey& job);

std::string_view to_text(FleetKind kind);  // as in launch.type
std::string_view to_text(wire::FleetState state);
std::string_view to_text(wire::InstanceState state);

// By when a launched job is to have finished.

// When the first of its own fleets was made, by those that EC2 still shows (for two days after
// their end) and what their tags say of those before them. None: it was not launched.
std::optional<wire::WallTime> first_launch_of(const std::vector<JobFleet>& fleets);

// finish_by, or so long after its first launch. None: it has no deadline, or was not launched.
std::optional<wire::WallTime> due_of(const config::Deadline& deadline,
                                     const std::vector<JobFleet>& fleets);

}  // namespace spotter::command
