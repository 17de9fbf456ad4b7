// The job's roles, as the commands of `aws` that make them.
#include <nlohmann/json.hpp>

#include "agent/aws/formats/aws_command.hpp"
#include "agent/job/trainer_role.hpp"
#include "agent/tools/iam/iam.hpp"

namespace spotter::command {
namespace {

using OrderedJson = nlohmann::ordered_json;

// What is filled in of the document; empty: nothing is left of it.
std::string filled(const std::string& name, const wire::IamValues& values) {
  for (const wire::IamDocument& document : wire::iam_documents()) {
    if (document.name != name) continue;
    const auto text = wire::fill_in(document, values);
    if (text && text->find("\"Effect\"") != text->npos) return OrderedJson::parse(*text).dump();
  }
  return "";
}

class Commands {
 public:
  Commands(const config::Job& job, const IamScope& scope)
      : values_(iam_values(job, scope)), policy_("spotter-" + job.name.str()) {}

  void remark(const std::string& text) { text_ += "# " + text + "\n"; }
  void iam(const char* action, const OrderedJson& input) {
    text_ += wire::command_of("iam", action, input.dump()) + "\n";
  }
  void role(const std::string& name, const std::string& trust, const std::string& policy) {
    iam("CreateRole", {{"RoleName", name}, {"AssumeRolePolicyDocument", filled(trust, values_)}});
    const std::string document = filled(policy, values_);
    if (document.empty()) return;
    iam("PutRolePolicy",
        {{"RoleName", name}, {"PolicyName", policy_}, {"PolicyDocument", document}});
  }
  std::string text() && { return std::move(text_); }

 private:
  wire::IamValues values_;
  std::string policy_;
  std::string text_;
};

std::string name_of(const std::string& role) { return role.substr(role.rfind('/') + 1); }

// Of EC2 and Auto Scaling themselves: made once in an account.
std::vector<std::string> services_of(FleetKind kind) {
  if (kind == FleetKind::AutoScalingGroup) return {"spot", "autoscaling"};
  return {"spot", kind == FleetKind::SpotFleet ? "spotfleet" : "ec2fleet"};
}

}  // namespace

std::string role_commands(const config::Job& job, const IamScope& scope) {
  Commands commands(job, scope);
  commands.remark("The instances' role, and the profile that gives it to them");
  commands.role(scope.role, "trust-instance", "agent");
  commands.iam("CreateInstanceProfile", {{"InstanceProfileName", scope.role}});
  commands.iam("AddRoleToInstanceProfile",
               {{"InstanceProfileName", scope.role}, {"RoleName", scope.role}});
  if (!config::has_instances_role(job.trainer)) {
    commands.remark("The trainer's role");
    const std::string role = config::trainers_role(job.trainer, scope.role);
    commands.role(name_of(role), "trust-trainer", "trainer");
  }
  if (!job.launch) return std::move(commands).text();
  if (!job.launch->fleet_role.empty()) {
    commands.remark("The Spot Fleet's role");
    commands.role(name_of(job.launch->fleet_role), "trust-spot-fleet", "spot-fleet");
  }
  commands.remark("AWS's own roles, once in an account: one that is there already is well");
  for (const std::string& service : services_of(job.launch->type))
    commands.iam("CreateServiceLinkedRole", {{"AWSServiceName", service + ".amazonaws.com"}});
  return std::move(commands).text();
}

}  // namespace spotter::command
