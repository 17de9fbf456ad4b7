// IAM, as far as the commands go that `spotter iam roles` prints and the README names. Source:
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_Operations.html
#pragma once

#include "tests/world/world.hpp"

namespace spotter::world {

// Carries out one call. IAM itself knows the change at once, every other service only later
// (Settings::iam_reaches): until then EC2 has no such profile, nobody can take the role, a new
// policy allows nothing, and no trust policy can name the role.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency
Reply iam(Cloud& cloud, const Call& call);

// The change to a role or user ("role/NAME", "NAME") has reached the other services.
void on_iam_reaches(Cloud& cloud, const std::string& who);

// Would EC2 launch an instance with this profile (a name or an ARN)? In an account that does not
// begin empty every profile is there.
std::optional<ApiError> refuse_profile(const Cloud& cloud, const std::string& profile);
// The ARN of a role by its name, with the path that it was made with.
std::string role_arn(const Cloud& cloud, const std::string& name);
// Is that the role's ARN? One that IAM did not make (World::set_policies) has any path.
bool has_arn(const Cloud& cloud, const std::string& name, std::string_view arn);
// The ARN of an instance profile by its name or ARN, likewise.
std::string profile_arn(const Cloud& cloud, const std::string& profile);
// The role of an instance with this profile, as it has it now; else the account's one for all.
std::string role_of_profile(const Cloud& cloud, const std::string& profile);

// Does the role's trust policy let the caller take it? True of a role that IAM did not make
// (World::set_policies).
bool trusts(const Cloud& cloud, const std::string& role, const std::string& caller);

}  // namespace spotter::world
