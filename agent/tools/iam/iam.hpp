// `spotter iam`: the roles and policies of scripts/iam, filled in for one job.
#pragma once

#include <string>
#include <vector>

#include "agent/aws/formats/iam.hpp"
#include "agent/job/job.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

// What job.yaml does not say.
struct IamScope {
  std::string account;                        // twelve digits
  Region region;                              // us-west-2
  std::string role = "spotter";               // of the instances, and their instance profile
  std::vector<std::string> volume_keys;       // ARNs of KMS keys
  std::vector<wire::S3Location> checkpoints;  // where libspotter's copies go: s3://bucket/prefix
};

wire::IamValues iam_values(const config::Job& job, const IamScope& scope);

// The commands of `aws`, a line each, that make the roles of the job, with their policies.
std::string role_commands(const config::Job& job, const IamScope& scope);

void add_iam(CLI::App& app, int& status);

}  // namespace spotter::command
