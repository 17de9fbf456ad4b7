// The values that IAM keeps of an account.
#pragma once

#include <map>
#include <set>
#include <string>

#include "agent/base/names.hpp"

namespace spotter::world {

struct Role {
  std::string path = "/";
  std::string trust;                           // the policy that says who may take it
  std::map<std::string, std::string> inlined;  // policies by name
  std::set<std::string> managed;               // ARNs of policies
  Time known{};                                // from then on everywhere, not to IAM alone
};

struct InstanceProfile {
  std::string path = "/";
  std::string role = {};  // empty: none yet
  Time known{};
};

struct IamAccount {
  std::map<std::string, Role> roles;
  std::map<std::string, InstanceProfile> profiles;
  std::map<std::string, std::string> policies;         // managed: documents by ARN
  std::map<std::string, std::set<std::string>> users;  // the ARNs of their policies
  std::set<std::string> linked;                        // services that have their own role
};

}  // namespace spotter::world
