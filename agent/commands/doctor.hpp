// `spotter doctor`: checks that all is there that the job will need. It only reads and asks, except
// for one test object in each bucket that the job writes to, which it removes again.
#pragma once

#include "agent/aws/aws_calls.hpp"
#include "agent/aws/formats/ec2_places.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/config/job.hpp"
#include "agent/launch/requests.hpp"

namespace spotter::command {

// The places in which the job is to run, as far as known.
struct DoctorScope {
  std::vector<std::string> types;         // instance types
  std::vector<std::string> zones;         // empty: all of the region
  std::vector<std::string> subnets;       // empty: the default ones
  std::optional<std::uint32_t> capacity;  // instances at once
  bool makes_volume = false;              // a missing volume will be made
};
// From `launch:`, if job.yaml has it.
DoctorScope scope_of(const config::Job& job);

// The chapters of checks, each independent.
Findings examine_storage(AwsCalls& calls, const config::Job& job, const DoctorScope& scope);
Findings examine_places(AwsCalls& calls, const config::Job& job, const DoctorScope& scope);
// Is the file system of storage.efs there, and can it be mounted in every zone of the scope?
Findings examine_file_system(AwsCalls& calls, const config::Job& job, const DoctorScope& scope);
// Asks EC2, by DryRun, whether the role that calls is allowed each call of a move.
Findings examine_permissions(AwsCalls& calls, const config::Job& job);
// Asks IAM, which is as good as trying, whether the instances' role is allowed all that
// `spotter iam agent` prints for the job: a machine that lacks a right costs until a person looks.
Findings examine_rights(AwsCalls& calls, const config::Job& job);
// Asks STS for the credentials that the trainer will have.
Findings examine_trainers_role(AwsCalls& calls, const config::Job& job);
// Counts the characters of the policies that the job's roles get, which IAM limits.
Findings examine_policies(const wire::CallerIdentity& who, const Region& region,
                          const config::Job& job);
// Would a sweep's containers on AWS Batch learn of a notice?
Findings examine_batch(const config::Job& job);
// Asks EC2, by DryRun, whether it would carry these out. `advice`: what to do if not.
Findings examine_calls(AwsCalls& calls, const std::vector<wire::Query>& queries,
                       const std::string& advice);
// `on_instance`: with its role, which has no part in a gang's record.
Findings examine_buckets(const config::Job& job, bool on_instance = false);
// Is launch.package there, or can the launching machine send it?
Findings examine_package(const LaunchedJob& launched);
Findings examine_code(AwsCalls& calls, const config::Job& job, bool on_instance);
// Fetches it, as an instance will.
Findings examine_repository(AwsCalls& calls, const config::Code& code, bool on_instance);
Findings examine_unsent(const config::Job& job);  // without code, with its program here
Findings examine_archive(const CodeArchive& archive, const std::string& folder);
Findings examine_machine(const config::Job& job);
// Whatever machine this is: a container of Slurm, Kubernetes or `spotter run` has a small one.
Findings examine_shared_memory();
// Does job.yaml itself hold what seems to be a secret, by the name of its variable?
Findings examine_variables(const config::Job& job);
// Shows what the guard keeps of the trainer's checkpoints, and has put away, if the storage is
// here.
Findings examine_checkpoints(const config::Job& job);

// Checks what else a launch needs: quotas, and the first requests (by DryRun).
Findings examine_launching(AwsCalls& calls, const LaunchedJob& launched);
// Does anybody watch the job's fleet, where an on-demand instance depends on that? One watched
// place is enough: of several, a watcher may be at the one that has the job. REQUIRES: job.launch.
Findings examine_watchers(const config::Job& job);
// Do the quotas suffice for the launch, or is its reservation there?
Findings examine_quotas(AwsCalls& calls, const config::Launch& launch);
// All checks before a launch, from outside of EC2.
Findings examine_before_launch(AwsCalls& calls, const LaunchedJob& launched);
// Given the template: would EC2 launch instances from it, and make the fleet?
Findings examine_fleet(AwsCalls& calls, const LaunchedJob& launched,
                       const launch::TemplateVersion& version);

// 0: all is well, 1: some warnings, 2: the job will not run.
int status_of(const Findings& findings);
// One line for each: "fail  volume   there is none ...: do that"
std::string describe(const Findings& findings);
// Without the findings that need no action.
Findings without_ok(Findings findings);
// Prints warnings and failures; false: something fails.
bool passes(const Findings& findings);

}  // namespace spotter::command
