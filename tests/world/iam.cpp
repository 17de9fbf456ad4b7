#include "tests/world/iam.hpp"

#include <algorithm>
#include <cctype>

#include "tests/world/ec2_access.hpp"
#include "tests/world/iam_trust.hpp"
#include "tests/world/query.hpp"
#include "tests/world/query_protocol.hpp"
#include "tests/world/service_members.hpp"
#include "tests/world/sts.hpp"

namespace spotter::world {
namespace {

constexpr const char* iam_space = "https://iam.amazonaws.com/doc/2010-05-08/";
// AWS's own policies that `spotter iam` and the README attach. Only the first one's content is
// known here: it allows everything.
constexpr const char* administrator = "arn:aws:iam::aws:policy/AdministratorAccess";
constexpr const char* of_aws[] = {
    administrator, "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore",
    "arn:aws:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role",
    "arn:aws:iam::aws:policy/service-role/AmazonEC2SpotFleetTaggingRole"};
constexpr const char* everything = R"({"Version": "2012-10-17",
    "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}})";

// One call, its answer being written: the inside of the result.
struct IamRequest {
  Cloud& cloud;
  const Query& query;
  IamAccount& account = cloud.iam;
  Xml xml = {};

  std::string text(const char* name) const { return query.text(name); }
  std::string arn(const std::string& resource) const {
    return "arn:aws:iam::" + cloud.settings.account + ":" + resource;
  }
  std::string identifier(const std::string& prefix) { return prefix + cloud.random.letters(17); }
  std::string date() const { return xml_time(cloud.wall(cloud.now)); }
  // The change reaches the other services; gives back when.
  Time spread(const std::string& who) {
    const Duration later = cloud.random.within(cloud.settings.iam_reaches);
    if (!who.empty()) cloud.schedule(later, IamReaches{who});
    return cloud.now + later;
  }
};
using Done = Expected<void>;

tl::unexpected<ApiError> exists_already(const std::string& what) {
  return refusal("EntityAlreadyExists", what + " already exists.", 409);
}
// "Names are not distinguished by case. For example, you cannot create resources named both
// "MyResource" and "myresource"."
bool is_taken(const auto& rows, const std::string& name) {
  return std::ranges::any_of(rows, [&](const auto& row) {
    return std::ranges::equal(row.first, name, [](unsigned char one, unsigned char other) {
      return std::tolower(one) == std::tolower(other);
    });
  });
}
tl::unexpected<ApiError> no_such_entity(const std::string& what) {
  return refusal("NoSuchEntity", what + " cannot be found.", 404);
}

void write_role(IamRequest& it, const std::string& path, const std::string& name) {
  it.xml.element("Role", [&] {
    it.xml.text("Path", path);
    it.xml.text("RoleName", name);
    it.xml.text("RoleId", it.identifier("AROA"));
    it.xml.text("Arn", it.arn("role" + path + name));
    it.xml.text("CreateDate", it.date());
  });
}

// Quotas, which count no white space.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
constexpr std::size_t longest_trust = 2048, longest_inlined = 10240, longest_policy = 6144;
std::size_t letters_of(const std::string& document) {
  return static_cast<std::size_t>(std::ranges::count_if(
      document, [](unsigned char letter) { return std::isspace(letter) == 0; }));
}

Done create_iam_role(IamRequest& it) {
  const std::string name = it.text("RoleName");
  if (is_taken(it.account.roles, name)) return exists_already("Role with name " + name);
  const std::string trust = it.text("AssumeRolePolicyDocument");
  if (auto checked = check_trust(it.cloud, trust); !checked) return checked;
  if (letters_of(trust) > longest_trust)
    return refusal("LimitExceeded", "Cannot exceed quota for ACLSizePerRole: 2048", 409);
  const std::string path = it.query.text("Path", "/");
  it.account.roles[name] = {.path = path,
                            .trust = trust,
                            .inlined = {},
                            .managed = {},
                            .known = it.spread("role/" + name)};
  write_role(it, path, name);
  return {};
}

// The documents of a role, or of a user.
std::vector<std::string> documents_of(const IamAccount& account,
                                      const std::set<std::string>& managed) {
  std::vector<std::string> documents;
  for (const std::string& arn : managed) {
    const auto made = account.policies.find(arn);
    if (made != account.policies.end()) documents.push_back(made->second);
    if (arn == administrator) documents.emplace_back(everything);
  }
  return documents;
}
std::vector<std::string> documents_of(const Role& role) {
  std::vector<std::string> documents;
  for (const auto& [name, document] : role.inlined) documents.push_back(document);
  return documents;
}

Done put_role_policy(IamRequest& it) {
  const auto found = it.account.roles.find(it.text("RoleName"));
  if (found == it.account.roles.end())
    return no_such_entity("The role with name " + it.text("RoleName"));
  Role changed = found->second;
  changed.inlined[it.text("PolicyName")] = it.text("PolicyDocument");
  const std::string who = "role/" + found->first;
  std::size_t letters = 0;
  for (const auto& [name, document] : changed.inlined) letters += letters_of(document);
  if (letters > longest_inlined)
    return refusal("LimitExceeded",
                   "Maximum policy size of 10240 bytes exceeded for role " + found->first, 409);
  if (auto read = read_policies(who, documents_of(changed)); !read)
    return tl::unexpected(read.error());
  found->second = std::move(changed);
  it.spread(who);
  return {};
}

Done check_managed(const IamRequest& it, const std::string& arn) {
  if (it.account.policies.contains(arn) || std::ranges::count(of_aws, arn) > 0) return {};
  return refusal("NoSuchEntity", "Policy " + arn + " does not exist or is not attachable.", 404);
}

Done attach_role_policy(IamRequest& it) {
  const auto found = it.account.roles.find(it.text("RoleName"));
  if (found == it.account.roles.end())
    return no_such_entity("The role with name " + it.text("RoleName"));
  if (auto checked = check_managed(it, it.text("PolicyArn")); !checked) return checked;
  found->second.managed.insert(it.text("PolicyArn"));
  it.spread("role/" + found->first);
  return {};
}

void write_profile(IamRequest& it, const std::string& name, const InstanceProfile& profile) {
  it.xml.element("InstanceProfile", [&] {
    it.xml.text("Path", profile.path);
    it.xml.text("InstanceProfileName", name);
    it.xml.text("InstanceProfileId", it.identifier("AIPA"));
    it.xml.text("Arn", it.arn("instance-profile" + profile.path + name));
    it.xml.text("CreateDate", it.date());
    it.xml.element("Roles", [&] {
      if (profile.role.empty()) return;
      it.xml.element("member", [&] {
        const std::string arn = role_arn(it.cloud, profile.role);
        it.xml.text("Path", arn.substr(arn.find('/'), arn.rfind('/') + 1 - arn.find('/')));
        it.xml.text("RoleName", profile.role);
        it.xml.text("RoleId", it.identifier("AROA"));
        it.xml.text("Arn", arn);
        it.xml.text("CreateDate", it.date());
      });
    });
  });
}

Done create_instance_profile(IamRequest& it) {
  const std::string name = it.text("InstanceProfileName");
  if (is_taken(it.account.profiles, name)) return exists_already("Instance Profile " + name);
  it.account.profiles[name] = {.path = it.query.text("Path", "/"), .known = it.spread("")};
  write_profile(it, name, it.account.profiles[name]);
  return {};
}

Done add_role_to_instance_profile(IamRequest& it) {
  const std::string name = it.text("InstanceProfileName");
  const auto found = it.account.profiles.find(name);
  if (found == it.account.profiles.end()) return no_such_entity("Instance Profile " + name);
  if (!it.account.roles.contains(it.text("RoleName")))
    return no_such_entity("The role with name " + it.text("RoleName"));
  if (!found->second.role.empty())
    return refusal("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1",
                   409);
  found->second.role = it.text("RoleName");
  found->second.known = it.spread("");
  return {};
}

Done get_instance_profile(IamRequest& it) {
  const std::string name = it.text("InstanceProfileName");
  const auto found = it.account.profiles.find(name);
  if (found == it.account.profiles.end()) {
    if (it.cloud.settings.empty_account) return no_such_entity("Instance Profile " + name);
    write_profile(it, name, {.role = it.cloud.settings.role});  // every one is there
    return {};
  }
  write_profile(it, name, found->second);
  return {};
}

// Those of the services with a role of their own that are emulated here.
constexpr const char* linked[] = {"autoscaling.amazonaws.com", "batch.amazonaws.com",
                                  "ec2fleet.amazonaws.com",    "elasticfilesystem.amazonaws.com",
                                  "spot.amazonaws.com",        "spotfleet.amazonaws.com"};

Done create_service_linked_role(IamRequest& it) {
  const std::string service = it.text("AWSServiceName");
  if (std::ranges::count(linked, service) == 0)
    return refusal("InvalidInput", service + " is not a valid service name here.");
  const std::string name = "AWSServiceRoleFor" + service.substr(0, service.find('.'));
  if (!it.account.linked.insert(service).second)
    return refusal("InvalidInput", "Service role name " + name +
                                       " has been taken in this account, please try a different "
                                       "suffix.");
  write_role(it, "/aws-service-role/" + service + "/", name);
  return {};
}

Done create_policy(IamRequest& it) {
  const std::string arn = it.arn("policy/" + it.text("PolicyName"));
  if (is_taken(it.account.policies, arn))
    return exists_already("A policy called " + it.text("PolicyName"));
  if (letters_of(it.text("PolicyDocument")) > longest_policy)
    return refusal("LimitExceeded", "Cannot exceed quota for PolicySize: 6144", 409);
  if (auto read = read_policies("a managed policy", {it.text("PolicyDocument")}); !read)
    return tl::unexpected(read.error());
  it.account.policies[arn] = it.text("PolicyDocument");
  it.xml.element("Policy", [&] {
    it.xml.text("PolicyName", it.text("PolicyName"));
    it.xml.text("PolicyId", it.identifier("ANPA"));
    it.xml.text("Arn", arn);
    it.xml.text("Path", "/");
    it.xml.text("DefaultVersionId", "v1");
    it.xml.value("AttachmentCount", 0);
    it.xml.value("IsAttachable", true);
    it.xml.text("CreateDate", it.date());
  });
  return {};
}

Done create_user(IamRequest& it) {
  const std::string name = it.text("UserName");
  if (is_taken(it.account.users, name)) return exists_already("User with name " + name);
  it.account.users[name];
  it.spread(name);
  it.xml.element("User", [&] {
    it.xml.text("Path", "/");
    it.xml.text("UserName", name);
    it.xml.text("UserId", it.identifier("AIDA"));
    it.xml.text("Arn", it.arn("user/" + name));
    it.xml.text("CreateDate", it.date());
  });
  return {};
}

Done attach_user_policy(IamRequest& it) {
  const auto found = it.account.users.find(it.text("UserName"));
  if (found == it.account.users.end())
    return no_such_entity("The user with name " + it.text("UserName"));
  if (auto checked = check_managed(it, it.text("PolicyArn")); !checked) return checked;
  found->second.insert(it.text("PolicyArn"));
  it.spread(found->first);
  return {};
}

// A user may nothing before a policy of his is known, whatever the key may be.
Done create_access_key(IamRequest& it) {
  const std::string name = it.text("UserName");
  if (!it.account.users.contains(name)) return no_such_entity("The user with name " + name);
  constexpr int most_keys = 2;
  if (std::ranges::count_if(it.cloud.credentials, [&](const auto& row) {
        return row.second.caller == name && !row.second.expires;
      }) >= most_keys)
    return refusal("LimitExceeded", "Cannot exceed quota for AccessKeysPerUser: 2", 409);
  const std::string key = "AKIA" + it.cloud.random.letters(16);
  const std::string secret = it.cloud.secret_of(key);
  if (!it.cloud.access || !it.cloud.access->policies().contains(name))
    (void)put_policies(it.cloud, name, {});
  it.cloud.credentials[key] = {key, secret, "", name, std::nullopt};
  it.xml.element("AccessKey", [&] {
    it.xml.text("UserName", name);
    it.xml.text("AccessKeyId", key);
    it.xml.text("Status", "Active");
    it.xml.text("SecretAccessKey", secret);
    it.xml.text("CreateDate", it.date());
  });
  return {};
}

// The role's policies as IAM itself knows them already; those of World::set_policies where IAM did
// not make the role. None: it may do everything.
Expected<std::optional<std::vector<Policy>>> policies_of(const IamRequest& it,
                                                         const std::string& name) {
  const auto made = it.account.roles.find(name);
  if (made != it.account.roles.end()) {
    auto read = read_policies("role/" + name, documents_of(made->second));
    if (!read) return tl::unexpected(read.error());
    return std::optional(std::move(*read));
  }
  if (it.cloud.settings.empty_account) return no_such_entity("Role " + name);
  if (!it.cloud.access) return std::nullopt;
  const auto& all = it.cloud.access->policies();
  const auto found = all.find(name == it.cloud.settings.role ? "instance" : "role/" + name);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

Expected<std::optional<std::vector<Policy>>> policies_of_user(const IamRequest& it,
                                                              const std::string& name) {
  const auto user = it.account.users.find(name);
  if (user == it.account.users.end()) return no_such_entity("The user with name " + name);
  auto read = read_policies("user/" + name, documents_of(it.account, user->second));
  if (!read) return tl::unexpected(read.error());
  return std::optional(std::move(*read));
}

// A key of one value that is given several is a mistake of the caller's.
Done read_context(const IamRequest& it, AccessRequest& request) {
  static const std::set<std::string> kinds = {"string", "stringList", "boolean", "booleanList"};
  for (const std::string& entry : it.query.members("ContextEntries.member")) {
    const std::string kind = it.query.required(entry + "ContextKeyType");
    const std::string key = it.query.required(entry + "ContextKeyName");
    const auto values = it.query.list(entry + "ContextKeyValues.member");
    const bool fits = kinds.contains(kind) && (kind.ends_with("List") || values.size() == 1);
    if (!fits) return refusal("InvalidInput", "Invalid context entry: " + key);
    for (const std::string& value : values) request.know(key, value);
  }
  return {};
}

const char* decision(const std::optional<std::vector<Policy>>& policies,
                     const AccessRequest& request) {
  if (!policies) return "allowed";
  const char* decided = "implicitDeny";
  for (const Policy& policy : *policies) {
    const auto verdict = policy.judge(request);
    if (verdict == Policy::Verdict::Denied) return "explicitDeny";
    if (verdict == Policy::Verdict::Allowed) decided = "allowed";
  }
  return decided;
}

// One result an action, the most restrictive of its resources; it knows the role's own policies
// alone, not those of buckets and keys.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
Done simulate_principal_policy(IamRequest& it) {
  const std::string source = it.text("PolicySourceArn");
  const bool of_user = source.starts_with(it.arn("user/"));
  if (!of_user && !source.starts_with(it.arn("role/")))
    return refusal("InvalidInput", "Invalid Entity Arn: " + source);
  const std::string name = source.substr(source.rfind('/') + 1);
  const auto policies = of_user ? policies_of_user(it, name) : policies_of(it, name);
  if (!policies) return tl::unexpected(policies.error());
  AccessRequest request;
  if (auto read = read_context(it, request); !read) return read;
  const auto actions = it.query.list("ActionNames.member");
  for (const std::string& action : actions)
    if (action.find(':') == action.npos)
      return refusal("InvalidInput", "Invalid Action: " + action);
  auto resources = it.query.list("ResourceArns.member");
  if (resources.empty()) resources = {"*"};
  it.xml.value("IsTruncated", false);
  it.xml.element("EvaluationResults", [&] {
    for (const std::string& action : actions) {
      std::string worst = "allowed";
      for (const std::string& resource : resources) {
        request.action = action;
        request.resource = resource;
        const std::string decided = decision(*policies, request);
        if (worst == "allowed" || decided == "explicitDeny") worst = decided;
      }
      it.xml.element("member", [&] {
        it.xml.text("EvalActionName", action);
        it.xml.text("EvalResourceName", resources.front());
        it.xml.text("EvalDecision", worst);
      });
    }
  });
  return {};
}

// An operation's parameters; the first of them names the resource on which it is judged.
struct IamOperation {
  Done (*carry_out)(IamRequest&);
  const char* resource;
  std::vector<const char*> required;
};
const std::map<std::string, IamOperation>& iam_operations() {
  static const std::map<std::string, IamOperation> all = {
      {"AddRoleToInstanceProfile",
       {add_role_to_instance_profile, "instance-profile/", {"InstanceProfileName", "RoleName"}}},
      {"AttachRolePolicy", {attach_role_policy, "role/", {"RoleName", "PolicyArn"}}},
      {"AttachUserPolicy", {attach_user_policy, "user/", {"UserName", "PolicyArn"}}},
      {"CreateAccessKey", {create_access_key, "user/", {"UserName"}}},
      {"CreateInstanceProfile",
       {create_instance_profile, "instance-profile/", {"InstanceProfileName"}}},
      {"CreatePolicy", {create_policy, "policy/", {"PolicyName", "PolicyDocument"}}},
      {"CreateRole", {create_iam_role, "role/", {"RoleName", "AssumeRolePolicyDocument"}}},
      {"CreateServiceLinkedRole",
       {create_service_linked_role, "role/aws-service-role/", {"AWSServiceName"}}},
      {"CreateUser", {create_user, "user/", {"UserName"}}},
      {"GetInstanceProfile", {get_instance_profile, "instance-profile/", {"InstanceProfileName"}}},
      {"SimulatePrincipalPolicy",
       {simulate_principal_policy, "", {"PolicySourceArn", "ActionNames.member.1"}}},
      {"PutRolePolicy", {put_role_policy, "role/", {"RoleName", "PolicyName", "PolicyDocument"}}}};
  return all;
}

// Putting a role into a profile passes it on to all instances with the profile.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_AddRoleToInstanceProfile.html
std::vector<AccessRequest> needed_by_iam(const IamRequest& it, const Call& call,
                                         const IamOperation& operation) {
  std::vector<AccessRequest> all;
  const std::string named = it.text(operation.required.front());
  AccessRequest& first = all.emplace_back(
      AccessRequest{"iam:" + call.action,
                    named.starts_with("arn:") ? named : it.arn(operation.resource + named)});
  if (it.query.has("AWSServiceName")) first.know("iam:AWSServiceName", it.text("AWSServiceName"));
  if (call.action == "AddRoleToInstanceProfile")
    all.push_back({"iam:PassRole", role_arn(it.cloud, it.text("RoleName"))});
  return all;
}

// Bounds that botocore's model of IAM has of the members that are texts: length and letters.
struct Shape {
  const char* member;
  std::size_t longest;
  const char* pattern;
};
constexpr const char* of_name = "[\\w+=,.@-]+";
constexpr const char* of_document = "[\\u0009\\u000A\\u000D\\u0020-\\u00FF]+";
constexpr const char* of_path = "(\\u002F)|(\\u002F[\\u0021-\\u007E]+\\u002F)";
constexpr Shape shapes[] = {{"RoleName", 64, of_name},
                            {"InstanceProfileName", 128, of_name},
                            {"PolicyName", 128, of_name},
                            {"UserName", 64, of_name},
                            {"Path", 512, of_path},
                            {"PolicyDocument", 131'072, of_document},
                            {"AssumeRolePolicyDocument", 131'072, of_document}};

bool has_letters_of(const std::string& text, const char* pattern) {
  const auto all = [&](auto fits) { return std::ranges::all_of(text, fits); };
  if (pattern == of_document)  // U+0100 begins with C4 in UTF-8
    return all([](unsigned char it) { return it < 0xC4 && (it >= 0x20 || std::isspace(it) != 0); });
  if (pattern == of_path)
    return text.starts_with('/') && text.ends_with('/') &&
           all([](unsigned char it) { return it > 0x20 && it < 0x7F; });
  return all([](unsigned char it) {
    return std::isalnum(it) != 0 ||
           std::string_view("_+=,.@-").find(static_cast<char>(it)) != std::string_view::npos;
  });
}

Done check_shape(const IamRequest& it, const Shape& shape) {
  const std::string value = it.text(shape.member);
  const auto refused = [&](const std::string& constraint) {
    std::string member = shape.member;
    member[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(member[0])));
    return refusal("ValidationError", "1 validation error detected: Value at '" + member +
                                          "' failed to satisfy constraint: Member must " +
                                          constraint);
  };
  if (value.size() > shape.longest)
    return refused("have length less than or equal to " + std::to_string(shape.longest));
  if (!value.empty() && !has_letters_of(value, shape.pattern))
    return refused(std::string("satisfy regular expression pattern: ") + shape.pattern);
  return {};
}

Done answer_iam(IamRequest& it, const Call& call) {
  const auto found = iam_operations().find(call.action);
  if (found == iam_operations().end())
    return refusal("InvalidAction",
                   "Could not find operation " + call.action + " for version 2010-05-08");
  if (const auto why = refuse_members("iam", call.action, call.parameters))
    return refusal("ValidationError", *why);
  for (const char* name : found->second.required)
    if (it.text(name).empty())
      return refusal("ValidationError", std::string("Value null at '") + name +
                                            "' failed to satisfy constraint: Member must not be "
                                            "null");
  for (const Shape& shape : shapes)
    if (auto fits = check_shape(it, shape); !fits) return fits;
  for (const AccessRequest& asked : needed_by_iam(it, call, found->second))
    if (it.cloud.access && !it.cloud.access->allows(call.caller, asked))
      return refusal("AccessDenied", denial(it.cloud, call.caller, asked), 403);
  return found->second.carry_out(it);
}

}  // namespace

Reply iam(Cloud& cloud, const Call& call) {
  const Query query(call.parameters);
  IamRequest request{cloud, query};
  const Done done = answer_iam(request, call);
  if (!done) return query_refused(cloud, iam_space, done.error());
  return query_answered(cloud, iam_space, call.action, request.xml.str());
}

// Both kinds were read when they were put: nothing is refused now.
void on_iam_reaches(Cloud& cloud, const std::string& who) {
  const IamAccount& account = cloud.iam;
  if (const auto user = account.users.find(who); user != account.users.end()) {
    (void)put_policies(cloud, who, documents_of(account, user->second));
    return;
  }
  const Role& role = account.roles.at(who.substr(who.find('/') + 1));
  (void)put_policies(cloud, who, documents_of(role));
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html; the text is what
// people quote of RunInstances and of fleets.
std::optional<ApiError> refuse_profile(const Cloud& cloud, const std::string& profile) {
  if (!cloud.settings.empty_account || profile.empty()) return std::nullopt;
  const std::string name = profile.substr(profile.rfind('/') + 1);
  const auto found = cloud.iam.profiles.find(name);
  if (found != cloud.iam.profiles.end() && !found->second.role.empty() &&
      found->second.known <= cloud.now &&
      (!profile.starts_with("arn:") ||
       profile.ends_with(":instance-profile" + found->second.path + name)))
    return std::nullopt;
  return ApiError{"InvalidParameterValue", "Value (" + name +
                                               ") for parameter iamInstanceProfile.name is "
                                               "invalid. Invalid IAM Instance Profile name"};
}

std::string role_arn(const Cloud& cloud, const std::string& name) {
  const auto role = cloud.iam.roles.find(name);
  const std::string path = role == cloud.iam.roles.end() ? "/" : role->second.path;
  return "arn:aws:iam::" + cloud.settings.account + ":role" + path + name;
}

bool has_arn(const Cloud& cloud, const std::string& name, std::string_view arn) {
  if (cloud.iam.roles.contains(name)) return arn == role_arn(cloud, name);
  return arn.starts_with("arn:aws:iam::" + cloud.settings.account + ":role/");
}

std::string profile_arn(const Cloud& cloud, const std::string& profile) {
  if (profile.starts_with("arn:")) return profile;
  const auto found = cloud.iam.profiles.find(profile);
  const std::string path = found == cloud.iam.profiles.end() ? "/" : found->second.path;
  return "arn:aws:iam::" + cloud.settings.account + ":instance-profile" + path + profile;
}

std::string role_of_profile(const Cloud& cloud, const std::string& profile) {
  const auto found = cloud.iam.profiles.find(profile.substr(profile.rfind('/') + 1));
  return found == cloud.iam.profiles.end() || found->second.role.empty() ? cloud.settings.role
                                                                         : found->second.role;
}

}  // namespace spotter::world
