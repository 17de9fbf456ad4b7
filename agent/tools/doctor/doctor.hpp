// `spotter doctor`: is everything there that the job will need? Looks and asks; what it writes is
// one object in each bucket that the job writes to, and that is removed again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/job/job.hpp"
#include "agent/launch/requests.hpp"
#include "agent/tools/jobs/launched_job.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

struct Finding {
  enum class Verdict { Ok, Warn, Fail };
  std::string check;  // credentials, volume, zones, ...
  Verdict verdict = Verdict::Ok;
  std::string what;    // what was found
  std::string advice;  // what to do; empty when all is well
};
using Findings = std::vector<Finding>;

// Where the job is to run, as far as that is known.
struct DoctorScope {
  std::vector<std::string> types;         // instance types
  std::vector<std::string> zones;         // empty: any of the region
  std::vector<std::string> subnets;       // empty: the default ones
  std::optional<std::uint32_t> capacity;  // instances at once
  bool makes_volume = false;              // a volume that is missing will be made
};
// As `launch:` has it, if job.yaml has one.
DoctorScope scope_of(const config::Job& job);

// The chapters of what is asked, each for itself.
Findings examine_storage(AwsCalls& calls, const config::Job& job, const DoctorScope& scope);
Findings examine_places(AwsCalls& calls, const config::Job& job, const DoctorScope& scope);
// Of the role that asks: EC2 is asked whether it would allow each call of a move (DryRun).
Findings examine_permissions(AwsCalls& calls, const config::Job& job);
// STS is asked for the credentials that the trainer will have.
Findings examine_trainers_role(AwsCalls& calls, const config::Job& job);
// EC2 is asked whether it would carry these out (DryRun). `advice`: to whom it refuses one.
Findings examine_calls(AwsCalls& calls, const std::vector<wire::Query>& queries,
                       const std::string& advice);
Findings examine_buckets(const config::Job& job);
Findings examine_code(AwsCalls& calls, const config::Job& job, bool on_instance);
Findings examine_machine(const config::Job& job);

// What a launch takes besides: quotas, the requests of what is made first (DryRun).
Findings examine_launching(AwsCalls& calls, const LaunchedJob& launched);
// All that is asked before a launch, from where a person sits.
Findings examine_before_launch(AwsCalls& calls, const LaunchedJob& launched);
// Once there is a template: would EC2 launch by it, and make the fleet?
Findings examine_fleet(AwsCalls& calls, const LaunchedJob& launched,
                       const launch::TemplateVersion& version);

// 0: all is well, 1: something is doubtful, 2: the job will not run.
int status_of(const Findings& findings);
// A line each: "fail  volume   there is none ...: do that"
std::string describe(const Findings& findings);
// The others are not worth a word.
Findings without_ok(Findings findings);

void add_doctor(CLI::App& app, int& status);

}  // namespace spotter::command
