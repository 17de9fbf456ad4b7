// `spotter iam`: the roles and policies of scripts/iam, filled in for one job.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/aws/formats/iam.hpp"
#include "agent/config/job.hpp"

namespace spotter::command {

// Values that job.yaml does not have.
struct IamScope {
  std::string account;                   // twelve digits
  Region region;                         // us-west-2
  std::string role = "spotter";          // of the instances, and their instance profile
  std::vector<std::string> volume_keys;  // ARNs of KMS keys
};

wire::IamValues iam_values(const config::Job& job, const IamScope& scope);

// The commands of `aws`, one a line, that make the job's roles with their policies.
struct IamCall {
  std::string action;
  std::map<std::string, std::string> parameters;
};
struct RoleCommands {
  std::string text;
  std::string problems;             // what IAM will refuse, and what to do about it; empty: nothing
  std::vector<IamCall> calls = {};  // those of the commands that are IAM's
};
RoleCommands role_commands(const config::Job& job, const IamScope& scope);

// The same for every job of an account whose places are all in one bucket: `spotter setup`. Things
// are distinguished by the tag spotter:job, whatever its value is; the session of a trainer leaves
// it what its own job names (config/trainer_role.hpp). `read`: places of data elsewhere.
RoleCommands account_commands(const std::string& bucket, const std::vector<wire::S3Location>& read,
                              const IamScope& scope);

// Prints the commands of `aws`, one a bucket, that have S3 remove what uploads that were broken off
// left, and old versions. The exit status: 1, with the reason, where the job writes none of these.
int print_lifecycle(const config::Job& job);

}  // namespace spotter::command
