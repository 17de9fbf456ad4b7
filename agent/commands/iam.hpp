// `spotter iam`: the roles and policies of scripts/iam, filled in for one job.
#pragma once

#include <string>
#include <vector>

#include "agent/aws/formats/iam.hpp"
#include "agent/config/job.hpp"

namespace spotter::command {

// Values that job.yaml does not have.
struct IamScope {
  std::string account;                        // twelve digits
  Region region;                              // us-west-2
  std::string role = "spotter";               // of the instances, and their instance profile
  std::vector<std::string> volume_keys;       // ARNs of KMS keys
  std::vector<wire::S3Location> checkpoints;  // of libspotter's copies: s3://bucket/prefix
  std::vector<wire::S3Location> read;         // by the trainer, beside the channels
};

wire::IamValues iam_values(const config::Job& job, const IamScope& scope);

// The commands of `aws`, one a line, that make the job's roles with their policies.
struct RoleCommands {
  std::string text;
  std::string problems;  // what IAM will refuse, and what to do about it; empty: nothing
};
RoleCommands role_commands(const config::Job& job, const IamScope& scope);

// Prints the commands of `aws`, one a bucket, that have S3 remove what uploads that were broken off
// left, and old versions. The exit status: 1, with the reason, where the job writes none of these.
int print_lifecycle(const config::Job& job, const IamScope& scope);

}  // namespace spotter::command
