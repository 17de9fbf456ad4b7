#include "tests/world/iam_trust.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/world/access.hpp"
#include "tests/world/iam.hpp"

namespace spotter::world {
namespace {

using Json = nlohmann::json;

std::vector<Json> as_list(const Json& value) {
  if (value.is_array()) return value.get<std::vector<Json>>();
  return {value};
}

std::vector<std::string> principals(const Json& statement, const char* kind) {
  std::vector<std::string> all;
  const Json found = statement.value("Principal", Json::object());
  if (!found.is_object() || !found.contains(kind)) return all;
  for (const Json& each : as_list(found[kind]))
    if (each.is_string()) all.push_back(each.get<std::string>());
  return all;
}

bool is_there(const Cloud& cloud, const std::string& principal) {
  const std::string begin = "arn:aws:iam::" + cloud.settings.account + ":";
  if (principal == cloud.settings.account || principal == begin + "root") return true;
  if (!principal.starts_with(begin)) return false;
  const std::string name = principal.substr(principal.rfind('/') + 1);
  if (principal.starts_with(begin + "user/")) return cloud.iam.users.contains(name);
  const auto role = cloud.iam.roles.find(name);
  return role != cloud.iam.roles.end() && role->second.known <= cloud.now &&
         principal == role_arn(cloud, name);
}

// An assumed role's is that of the role, without the session.
std::string principal_of(const Cloud& cloud, const std::string& caller) {
  const std::string begin = "arn:aws:iam::" + cloud.settings.account + ":";
  if (caller.starts_with("role/")) {  // role/NAME/SESSION
    const std::string role = caller.substr(0, caller.rfind('/'));
    return role_arn(cloud, role.substr(role.find('/') + 1));
  }
  if (caller.starts_with("i-")) return role_arn(cloud, cloud.settings.role);
  return begin + "user/" + caller;
}

// The policy for somebody whom it names. One without a version is of 2008, which a trust may be.
Result<Policy> without_principals(const Json& trust) {
  Json rest = {{"Version", "2012-10-17"}, {"Statement", Json::array()}};
  if (const Json version = trust.value("Version", Json()); !version.is_null())
    rest["Version"] = version == "2008-10-17" ? Json("2012-10-17") : version;
  for (Json statement : as_list(trust["Statement"])) {
    statement.erase("Principal");
    statement["Resource"] = "*";
    rest["Statement"].push_back(std::move(statement));
  }
  return Policy::parse(rest.dump());
}

bool statement_allows(const Json& statement, const std::string& principal,
                      const std::string& account) {
  const auto policy = without_principals({{"Statement", statement}});
  AccessRequest asked{"sts:AssumeRole", "*"};
  asked.know("aws:PrincipalArn", principal);
  asked.know("aws:PrincipalAccount", account);
  return policy && policy->judge(asked) == Policy::Verdict::Allowed;
}

}  // namespace

Expected<void> check_trust(const Cloud& cloud, const std::string& document) {
  const Json parsed = Json::parse(document, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("Statement"))
    return refusal("MalformedPolicyDocument", "This policy contains invalid Json");
  for (const Json& statement : as_list(parsed["Statement"])) {
    if (!statement.is_object() || !statement.contains("Principal"))
      return refusal("MalformedPolicyDocument", "Missing required field Principal");
    if (statement.contains("Resource"))
      return refusal("MalformedPolicyDocument", "Has prohibited field Resource");
    for (const std::string& service : principals(statement, "Service"))
      if (!service.ends_with(".amazonaws.com") && !service.ends_with(".amazonaws.com.cn"))
        return refusal("MalformedPolicyDocument",
                       "Invalid principal in policy: \"SERVICE\":\"" + service + "\"");
    for (const std::string& principal : principals(statement, "AWS"))
      if (!is_there(cloud, principal))
        return refusal("MalformedPolicyDocument",
                       "Invalid principal in policy: \"AWS\":\"" + principal + "\"");
  }
  if (const auto rest = without_principals(parsed); !rest)
    return refusal("MalformedPolicyDocument", rest.error().message);
  return {};
}

bool trusts(const Cloud& cloud, const std::string& role, const std::string& caller) {
  const auto found = cloud.iam.roles.find(role);
  if (found == cloud.iam.roles.end()) return true;
  const std::string principal = principal_of(cloud, caller);
  const std::string& account = cloud.settings.account;
  const std::vector<std::string> names = {principal, account, "arn:aws:iam::" + account + ":root"};
  const Json trust = Json::parse(found->second.trust, nullptr, false);
  return std::ranges::any_of(as_list(trust["Statement"]), [&](const Json& statement) {
    const auto named = principals(statement, "AWS");
    return std::ranges::find_first_of(named, names) != named.end() &&
           statement_allows(statement, principal, account);
  });
}

}  // namespace spotter::world
