// A check of a launch that AWS did not answer.
#pragma once

#include <algorithm>
#include <iterator>

#include "agent/aws/aws_calls.hpp"
#include "agent/commands/fleets.hpp"
#include "agent/config/job.hpp"
#include "agent/launch/machines.hpp"
#include "agent/launch/user_data.hpp"

namespace spotter::command {

inline void append(Findings& to, Findings more) { std::ranges::move(more, std::back_inserter(to)); }

// A warning that names what is not known: `open` is "whether ...".
inline Finding unanswered(const char* check, const CallError& error, const std::string& open) {
  return {check, Finding::Verdict::Warn, error.message,
          open + " is open" +
              (error.forbidden() ? "; give who launches what `spotter iam launcher` prints" : "")};
}

// The interfaces of the job's instances; without launch.efa none. REQUIRES: job.launch.
Result<launch::Interfaces, CallError> efa_interfaces(AwsCalls& calls, const config::Job& job);

// Asks EC2 of the instance types and the image of a launch, and judges them (launch/machines.hpp).

// Anything that EC2 does not say, or may not be asked, is a warning that names it. image_of() deals
// with a parameter of SSM that names no image. REQUIRES: job.launch.
Findings examine_machines(AwsCalls& calls, const config::Job& job,
                          const std::vector<launch::SentPackage>& packages);

// Can a set of a sweep be placed on AWS Batch? Nothing: Batch chooses the types.
Findings examine_room(AwsCalls& calls, const config::Batch& batch);

// The instance profile of a launch: is it there, and does EC2 know it?

// Checks what IAM says of launch.profile.
Finding examine_profile(AwsCalls& calls, const config::Launch& launch);

// Waits while EC2 does not know the profile that this RunInstances names, two minutes at most: IAM
// tells it of a new one only after some seconds, and launches fail until then. Whatever else EC2
// says is no failure here. `command`: who waits, for its line on standard error.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency
Result<void, CallError> await_profile(AwsCalls& calls, const wire::Query& run, const char* command);

// The placement group of a gang's fleet (launch.placement_group): EC2 puts its instances near one
// another.

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
