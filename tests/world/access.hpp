// IAM policies, and whether they allow a request. Pure. Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::world {

// One action on one resource, and what is known of it. The keys of conditions are in lower case
// ("ec2:resourcetag/name"); several values: of a key that holds a set.
struct AccessRequest {
  std::string action;    // ec2:AttachVolume
  std::string resource;  // ARN; "*" where the action knows none
  std::multimap<std::string, std::string> context = {};

  void know(std::string key, const std::string& value);
};

// An identity-based policy.
class Policy {
 public:
  enum class Verdict { Allowed, NotAllowed, Denied };

  // Fails on what is no policy, and on what is not modelled here (NotResource, dates,
  // numbers and addresses in conditions): a policy is never half understood.
  static Result<Policy> parse(std::string_view json);
  Verdict judge(const AccessRequest& request) const;

 private:
  struct Condition {
    std::string key;  // in lower case
    std::vector<std::string> values;
    enum class Kind { Equal, EqualIgnoringCase, Like, Bool, Null } kind = Kind::Equal;
    bool negated = false;
    bool if_exists = false;
    enum class Sets { No, ForAll, ForAny } sets = Sets::No;
  };
  struct Statement {
    bool allows = false;
    std::vector<std::string> actions;
    bool all_other = false;        // NotAction
    bool other_resources = false;  // NotResource: all but these
    std::vector<std::string> resources;
    std::vector<Condition> conditions;
  };
  struct Reader;
  static bool fits(const Statement& statement, const AccessRequest& request);
  static bool holds(const Condition& condition, const AccessRequest& request);

  std::vector<Statement> statements_;
};

// The policies of every caller; never changed once it is made, so that any thread may ask.
class Access {
 public:
  using Policies = std::map<std::string, std::vector<Policy>, std::less<>>;
  // By a caller, "role/NAME/SESSION": of what its role may, what the policy of the session leaves.
  using Sessions = std::map<std::string, Policy, std::less<>>;
  explicit Access(Policies policies, Sessions sessions = {})
      : policies_(std::move(policies)), sessions_(std::move(sessions)) {}
  const Policies& policies() const { return policies_; }
  const Sessions& sessions() const { return sessions_; }

  // `caller`: a user's name, an instance's id, or "role/NAME/SESSION". A caller without policies
  // may do everything.
  bool allows(std::string_view caller, const AccessRequest& request) const;

 private:
  Policies policies_;
  Sessions sessions_;
};

// `*` and `?`, where variables were replaced by what the context says: ${aws:username}, ${*}.
bool matches_pattern(std::string_view pattern, std::string_view text, const AccessRequest& request);

}  // namespace spotter::world
