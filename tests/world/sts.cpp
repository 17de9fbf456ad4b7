#include "tests/world/sts.hpp"

#include <algorithm>
#include <cctype>

#include "tests/world/ec2_access.hpp"
#include "tests/world/iam.hpp"
#include "tests/world/query.hpp"
#include "tests/world/query_protocol.hpp"
#include "tests/world/service_members.hpp"

namespace spotter::world {
namespace {

constexpr const char* space = "https://sts.amazonaws.com/doc/2011-06-15/";
constexpr std::string_view of_role = "role/";
constexpr char narrowed = '#';  // no session's name has it

std::string without_policy(const std::string& caller) {
  return caller.substr(0, caller.find(narrowed));
}

// https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html
Reply refused(Cloud& cloud, const ApiError& why) { return query_refused(cloud, space, why); }

template <class Write>
Reply answered(Cloud& cloud, const std::string& action, Write write) {
  Xml xml;
  write(xml);
  return query_answered(cloud, space, action, xml.str());
}

// The prefix of an id says what it is of: AIDA a user, AROA a role.
std::string user_id(const std::string& caller) {
  if (caller.starts_with("i-")) return "AROAEMULATOR000000000:" + caller;
  if (!caller.starts_with(of_role)) return "AIDAEMULATOR000000000";
  return "AROAEMULATOR000000001:" + without_policy(caller.substr(caller.rfind('/') + 1));
}

bool is_session_name(const std::string& text) {
  return text.size() >= 2 && text.size() <= 64 && std::ranges::all_of(text, [](unsigned char it) {
           return std::isalnum(it) ||
                  std::string_view("_=,.@-").find(static_cast<char>(it)) != std::string_view::npos;
         });
}

// A caller with a role already gets another for an hour at most ("role chaining").
std::optional<ApiError> wrong(const Call& call, int seconds) {
  const Query query(call.parameters);
  for (const char* name : {"RoleArn", "RoleSessionName"})
    if (query.text(name).empty())
      return ApiError{"ValidationError", std::string("Value null at '") + name +
                                             "' failed to satisfy constraint: Member must not be "
                                             "null"};
  if (!is_session_name(query.text("RoleSessionName")))
    return ApiError{"ValidationError",
                    "Value at 'roleSessionName' failed to satisfy constraint: Member must satisfy "
                    "regular expression pattern: [\\w+=,.@-]*"};
  if (seconds < 900 || seconds > 43200)
    return ApiError{"ValidationError", "Value at 'durationSeconds' failed to satisfy constraint"};
  const std::string role = query.text("RoleArn");
  if (!role.starts_with("arn:") || role.find(":role/") == role.npos)
    return ApiError{"ValidationError", role + " is invalid"};
  const bool chained = call.caller.starts_with("i-") || call.caller.starts_with(of_role);
  if (chained && seconds > 3600)
    return ApiError{"ValidationError",
                    "The requested DurationSeconds exceeds the 1 hour session limit for roles "
                    "assumed by role chaining"};
  return std::nullopt;
}

// A session with a policy is a caller of its own: several have one name, each with its policy.
std::optional<ApiError> narrow(Cloud& cloud, std::string& caller, const std::string& text) {
  constexpr std::size_t longest = 2048;
  if (text.size() > longest)
    return ApiError{"ValidationError",
                    "1 validation error detected: Value at 'policy' failed to satisfy constraint: "
                    "Member must have length less than or equal to 2048"};
  if (text.empty()) return std::nullopt;
  auto policy = Policy::parse(text);
  if (!policy) return ApiError{"MalformedPolicyDocument", policy.error().message};
  caller += narrowed + cloud.random.hex(16);
  Access::Sessions sessions = cloud.access->sessions();
  sessions.emplace(caller, *std::move(policy));
  cloud.access = std::make_shared<const Access>(cloud.access->policies(), std::move(sessions));
  return std::nullopt;
}

Reply assume_role(Cloud& cloud, const Call& call) {
  const Query query(call.parameters);
  const int seconds = query.integer("DurationSeconds").value_or(3600);
  if (const auto why = wrong(call, seconds)) return refused(cloud, *why);
  const std::string arn = query.text("RoleArn");
  const std::string name = arn.substr(arn.rfind('/') + 1);
  const std::string role = std::string(of_role) + name;
  // AWS says the same if there is no such role.
  const bool there =
      has_arn(cloud, name, arn) && cloud.access && cloud.access->policies().contains(role);
  const AccessRequest asked{"sts:AssumeRole", arn};
  if (!there || !trusts(cloud, name, call.caller) || !cloud.access->allows(call.caller, asked))
    return refused(cloud, {"AccessDenied", denial(cloud, call.caller, asked), 403});
  // A role that IAM made has the longest session that IAM gives by itself.
  constexpr int longest_session = 3600;
  if (cloud.iam.roles.contains(name) && seconds > longest_session)
    return refused(cloud, {"ValidationError",
                           "The requested DurationSeconds exceeds the MaxSessionDuration set for "
                           "this role."});
  std::string caller = role + "/" + query.text("RoleSessionName");
  if (const auto why = narrow(cloud, caller, query.text("Policy"))) return refused(cloud, *why);
  const Credential keys = issue(cloud, caller, Duration{seconds * 1000LL});
  return answered(cloud, "AssumeRole", [&](Xml& xml) {
    xml.element("AssumedRoleUser", [&] {
      xml.text("AssumedRoleId", user_id(caller));
      xml.text("Arn", arn_of(cloud, caller));
    });
    xml.element("Credentials", [&] {
      xml.text("AccessKeyId", keys.access_key);
      xml.text("SecretAccessKey", keys.secret);
      xml.text("SessionToken", keys.session_token);
      xml.text("Expiration", metadata_time(cloud.wall(*keys.expires)));
    });
  });
}

}  // namespace

std::string arn_of(const std::string& account, const std::string& role, const std::string& caller) {
  const std::string assumed = "arn:aws:sts::" + account + ":assumed-role/";
  if (caller.starts_with(of_role)) return assumed + without_policy(caller.substr(of_role.size()));
  if (!caller.starts_with("i-")) return "arn:aws:iam::" + account + ":user/" + caller;
  return assumed + role + "/" + caller;
}

std::string arn_of(const Cloud& cloud, const std::string& caller) {
  return arn_of(cloud.settings.account, cloud.settings.role, caller);
}

Credential issue(Cloud& cloud, const std::string& caller, Duration lifetime) {
  const std::string key = "ASIA" + cloud.random.letters(16);
  return cloud.credentials[key] = {.access_key = key,
                                   .secret = cloud.secret_of(key),
                                   .session_token = "IQoJb3JpZ2luX2Vj" + cloud.random.hex(120),
                                   .caller = caller,
                                   .expires = cloud.now + lifetime};
}

Reply sts(Cloud& cloud, const Call& call) {
  if (!service_members().at("sts").contains(call.action))
    return refused(cloud, {"InvalidAction",
                           "Could not find operation " + call.action + " for version 2011-06-15"});
  if (const auto why = refuse_members("sts", call.action, call.parameters))
    return refused(cloud, {"ValidationError", *why});
  if (call.action == "AssumeRole") return assume_role(cloud, call);
  return answered(cloud, "GetCallerIdentity", [&](Xml& xml) {
    xml.text("Arn", arn_of(cloud, call.caller));
    xml.text("UserId", user_id(call.caller));
    xml.text("Account", cloud.settings.account);
  });
}

}  // namespace spotter::world
