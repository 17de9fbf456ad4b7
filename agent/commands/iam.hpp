// `spotter iam`: the roles and policies of scripts/iam, filled in for one job.
#pragma once

#include "agent/aws/formats/iam.hpp"
#include "agent/config/job.hpp"

namespace spotter::command {

// Values that job.yaml does not have.
struct IamScope {
  std::string account;                   // twelve digits
  Region region;                         // us-west-2
  std::string role = "spotter";          // of the instances, and their profile; with its path
  std::vector<std::string> volume_keys;  // ARNs of KMS keys
  std::vector<std::string> other_keys;   // the same, of parameters, objects and topics
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
// They serve every job of an account whose places are all in one bucket: `spotter setup`. Things
// are distinguished by the tag spotter:job, whatever its value is; the session of a trainer leaves
// it what its own job names (config/trainer_role.hpp). `read`: places of data elsewhere. `shell`:
// the machines may be reached by Session Manager.
RoleCommands account_commands(const std::string& bucket, const std::vector<wire::S3Location>& read,
                              const IamScope& scope, bool shell);

// IAM counts a policy's characters without white space, and refuses what is too long only when it
// is put there. Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html

inline constexpr std::size_t longest_of_a_user = 2048;   // all inline policies of one together
inline constexpr std::size_t longest_of_a_role = 10240;  // the same
inline constexpr std::size_t longest_managed = 6144;     // one policy of its own, attached

// The role of the job's instances, which is named as their profile is: launch.profile's, or the
// default.
std::string instances_role_of(const config::Job& job);

// Those that count.
std::size_t policy_characters(std::string_view document);
// "10,240"
std::string with_commas(std::size_t number);

// The inline policies that one role gets of this job.
struct RolePolicies {
  std::string role;   // its name
  std::string trust;  // whom it trusts: a document of scripts/iam
  std::string what;   // for a person: "instances' role"
  std::vector<std::string> documents;
  bool has_profile = false;  // an instance profile of the same name gives it to instances
  std::string managed = {};  // one of AWS's own policies, by the end of its ARN; empty: none
  std::string path = "/";
  std::string account = {};  // empty: the one for which policies are printed
};
// The instances', the trainer's, a Spot Fleet's, those of AWS Batch; those that the job has.
std::vector<RolePolicies> roles_of(const config::Job& job, const IamScope& scope);

// The document with the job's values; empty: nothing is left of it.
Result<std::string> filled(const std::string& document, const wire::IamValues& values);

// Says that IAM would refuse it, and what to do about it; empty: it fits. `characters`: of all that
// the role gets of this job.
std::string too_long_for_a_role(std::size_t characters);

}  // namespace spotter::command
