// The placement group of a gang's fleet (launch.placement_group): EC2 puts its instances near one
// another.
#pragma once

#include "agent/aws/aws_calls.hpp"
#include "agent/base/finding.hpp"
#include "agent/job/job.hpp"
#include "agent/tools/jobs/fleets.hpp"

namespace spotter::command {

struct PlacementSeen {
  Findings findings;
  std::string strategy;  // cluster, spread, partition; empty: there is none, or it is unknown
};

// Whether it can be used: one that is named is there, and the job's own is nobody else's. What EC2
// does not say is a warning. REQUIRES: job.launch.
PlacementSeen examine_placement_group(AwsCalls& calls, const config::Job& job);

// The job is to have its own, and EC2 shows none. REQUIRES: job.launch.
bool placement_group_is_missing(AwsCalls& calls, const config::Job& job);

// Makes the job's own, unless it is there, and prints that; waits until it, or one that is named
// and there, can be used. Fails where one of its name is not this job's, or is not to be had within
// a minute. REQUIRES: job.launch.
Result<void, CallError> provide_placement_group(AwsCalls& calls, const config::Job& job);

struct EndGroup {
  bool known = false;  // the job has one: not to be allowed to look is a failure, else printed
  bool wait = false;   // until its instances are out of it, and it is gone
};

// Deletes the job's own, if there is one: it has the job's name, and its tags. It stays while a
// fleet of the job is at work, or an instance is in it, and where job.storage is empty, which does
// not say whose it is; that is printed. With `wait` an instance in it for two minutes is a failure.
Result<void, CallError> end_placement_group(AwsCalls& calls, const JobKey& job,
                                            const EndGroup& how);

}  // namespace spotter::command
