#include "agent/commands/iam_sizes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/config/trainer_role.hpp"

namespace spotter::command {
namespace {

// In a container agent and trainer are one to AWS: the job's role, else their host's.
void add_batch_roles(const config::Batch& batch, std::vector<RolePolicies>& roles) {
  RolePolicies hosts{role_name(batch.environment.instance_role),
                     "trust-instance",
                     "The role of AWS Batch's instances",
                     {},
                     true,
                     "service-role/AmazonEC2ContainerServiceforEC2Role"};
  const std::vector<std::string> documents{"agent", "trainer"};
  if (batch.definition.job_role.empty()) {
    hosts.documents = documents;
    hosts.what +=
        ", and of every container on any of them: rather name this job's own in "
        "sweep.batch.job_role";
  }
  roles.push_back(std::move(hosts));
  if (!batch.definition.job_role.empty())
    roles.push_back({role_name(batch.definition.job_role), "trust-ecs-tasks",
                     "The containers' role", documents});
}

}  // namespace

std::string role_name(const std::string& role) { return role.substr(role.rfind('/') + 1); }

std::size_t policy_characters(std::string_view document) {
  constexpr std::string_view white = " \t\r\n";
  return static_cast<std::size_t>(std::ranges::count_if(
      document, [&](char letter) { return white.find(letter) == white.npos; }));
}

std::string with_commas(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string filled(const std::string& document, const wire::IamValues& values) {
  for (const wire::IamDocument& known : wire::iam_documents()) {
    if (known.name != document) continue;
    const auto text = wire::fill_in(known, values);
    if (text && text->find("\"Effect\"") != text->npos)
      return nlohmann::ordered_json::parse(*text).dump();
  }
  return "";
}

std::vector<RolePolicies> roles_of(const config::Job& job, const IamScope& scope) {
  std::vector<RolePolicies> roles;
  const bool on_batch = job.sweep && job.sweep->batch;
  if (!on_batch || job.launch) {
    roles.push_back({scope.role, "trust-instance", "The instances' role", {"agent"}, true});
    if (config::has_instances_role(job.trainer)) {
      roles.front().documents.emplace_back("trainer");
    } else {
      const std::string role = config::trainers_role(job.trainer, scope.role);
      roles.push_back({role_name(role), "trust-trainer", "The trainer's role", {"trainer"}});
    }
  }
  if (job.launch && !job.launch->fleet_role.empty())
    roles.push_back({role_name(job.launch->fleet_role),
                     "trust-spot-fleet",
                     "The Spot Fleet's role",
                     {"spot-fleet"}});
  if (on_batch) add_batch_roles(*job.sweep->batch, roles);
  return roles;
}

std::string too_long_for_a_role(std::size_t characters) {
  if (characters <= longest_of_a_role) return "";
  return with_commas(characters) + " characters, and all policies in a role have at most " +
         with_commas(longest_of_a_role) +
         " together: name in trainer.reads a prefix that many channels have, give each job a role "
         "of its "
         "own, or attach managed policies, each with some of the statements and at most " +
         with_commas(longest_managed);
}

std::vector<std::string> parts_of(const std::string& document, std::size_t most) {
  const auto whole = nlohmann::ordered_json::parse(document);
  auto part = whole;
  part["Statement"] = nlohmann::ordered_json::array();
  std::vector<std::string> parts;
  for (const auto& statement : whole["Statement"]) {
    part["Statement"].push_back(statement);
    if (part["Statement"].size() == 1 || policy_characters(part.dump()) <= most) continue;
    part["Statement"].erase(part["Statement"].size() - 1);
    parts.push_back(part.dump(2));
    part["Statement"] = nlohmann::ordered_json::array({statement});
  }
  parts.push_back(part.dump(2));
  return parts;
}

UserPolicyAdvice advice_for_a_user(const std::string& document) {
  if (document.empty()) return {};
  const std::size_t characters = policy_characters(document);
  if (characters <= longest_of_a_user) return {};
  if (characters <= longest_managed)
    return {false, with_commas(characters) +
                       " characters, and all policies in a user have at most " +
                       with_commas(longest_of_a_user) +
                       " together: make a managed policy of it (aws iam create-policy, then "
                       "attach-user-policy), which may have " +
                       with_commas(longest_managed)};
  const auto parts = parts_of(document);
  const bool each_fits = std::ranges::all_of(
      parts, [](const std::string& it) { return policy_characters(it) <= longest_managed; });
  const std::string count = std::to_string(parts.size());
  return {true, with_commas(characters) + " characters, and a managed policy has at most " +
                    with_commas(longest_managed) + ": make " + count + " of it, which " +
                    (each_fits ? "--part 1 to --part " + count + " print"
                               : "takes fewer resources in one of its statements, too")};
}

}  // namespace spotter::command
