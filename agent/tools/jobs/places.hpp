// The regions in which a job may run (launch.pools), with AWS in each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/job/job.hpp"

namespace spotter::command {

// AWS in that region; empty: in the one that AWS_REGION names.
Result<std::unique_ptr<AwsCalls>> calls_in(const std::string& region);

struct JobPlace {
  std::unique_ptr<AwsCalls> calls;
  config::Job job;  // as it is launched there, with the names of its zones
};

// One for a job without pools, in the region that AWS_REGION names. Never empty. Fails where no
// region is known, or two places are the same one. REQUIRES: job.launch.
Result<std::vector<JobPlace>> places_of(const config::Job& job);

// The same with zones as job.yaml says them: asks nobody, as what ends a job must not depend on it.
Result<std::vector<JobPlace>> unnamed_places_of(const config::Job& job);

}  // namespace spotter::command
