// IAM counts a policy's characters without white space, and refuses what is too long only when it
// is put there. Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
#pragma once

#include <string>
#include <vector>

#include "agent/commands/iam.hpp"

namespace spotter::command {

inline constexpr std::size_t longest_of_a_user = 2048;   // all inline policies of one together
inline constexpr std::size_t longest_of_a_role = 10240;  // the same
inline constexpr std::size_t longest_managed = 6144;     // one policy of its own, attached

// The name at the end of an ARN, with a path or without; a name stands for itself.
std::string role_name(const std::string& role);

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
};
// The instances', the trainer's, a Spot Fleet's, those of AWS Batch; those that the job has.
std::vector<RolePolicies> roles_of(const config::Job& job, const IamScope& scope);

// The document with the job's values; empty: nothing is left of it.
std::string filled(const std::string& document, const wire::IamValues& values);

// Says that IAM would refuse it, and what to do about it; empty: it fits. `characters`: of all that
// the role gets of this job.
std::string too_long_for_a_role(std::size_t characters);
// The policy as several, each with some of its statements, in their order, and at most so many
// characters: together they allow the same, as each statement only allows. One, if it fits. A part
// is longer only if its one statement is. REQUIRES: it is filled().
std::vector<std::string> parts_of(const std::string& document, std::size_t most = longest_managed);

// Advice on a policy for a user; also says when it is too long for a user's inline policy alone.
struct UserPolicyAdvice {
  bool refused = false;  // one managed policy cannot have it either
  std::string text;      // empty: it fits anywhere
};
UserPolicyAdvice advice_for_a_user(const std::string& document);

}  // namespace spotter::command
