// The commands of `aws` that make the job's roles.
#include <nlohmann/json.hpp>
#include <set>

#include "agent/aws/formats/aws_command.hpp"
#include "agent/launch/requests.hpp"
#include "agent/tools/iam/iam_sizes.hpp"

namespace spotter::command {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Batch takes user data in this format only. ECS's agent does not drain by default, and sends
// SIGKILL 30 s after SIGTERM; of a notice's two minutes 100 s are the trainer's here, and some are
// left to ECS and Spotter.
// https://docs.aws.amazon.com/batch/latest/userguide/launch-templates.html
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/container-instance-spot.html
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-agent-config.html
constexpr std::string_view ecs_user_data =
    "MIME-Version: 1.0\n"
    "Content-Type: multipart/mixed; boundary=\"==spotter==\"\n\n"
    "--==spotter==\n"
    "Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n"
    "#!/bin/sh\n"
    "echo ECS_ENABLE_SPOT_INSTANCE_DRAINING=true >>/etc/ecs/ecs.config\n"
    "echo ECS_CONTAINER_STOP_TIMEOUT=100s >>/etc/ecs/ecs.config\n"
    "--==spotter==--\n";

class Commands {
 public:
  Commands(const config::Job& job, const IamScope& scope)
      : values_(iam_values(job, scope)), policy_("spotter-" + job.name.str()) {}

  void remark(const std::string& text) { text_ += "# " + text + "\n"; }
  void iam(const char* action, const OrderedJson& input) {
    text_ += wire::command_of("iam", action, input.dump()) + "\n";
  }
  void role(const RolePolicies& it) {
    std::vector<OrderedJson> policies;
    std::size_t characters = 0;
    for (const std::string& name : it.documents) {
      const std::string document = filled(name, values_);
      if (document.empty()) continue;
      characters += policy_characters(document);
      policies.push_back({{"RoleName", it.role},
                          {"PolicyName", policy_ + (policies.empty() ? "" : "-" + name)},
                          {"PolicyDocument", document}});
    }
    remark(it.what + ": " + with_commas(characters) + " of the " + with_commas(longest_of_a_role) +
           " characters that all policies in a role have together");
    if (const auto problem = too_long_for_a_role(characters); !problem.empty())
      problems_ += (problems_.empty() ? "" : "; ") + it.what + ": " + problem;
    iam("CreateRole",
        {{"RoleName", it.role}, {"AssumeRolePolicyDocument", filled(it.trust, values_)}});
    for (const OrderedJson& policy : policies) iam("PutRolePolicy", policy);
    if (!it.managed.empty())
      iam("AttachRolePolicy",
          {{"RoleName", it.role},
           {"PolicyArn", "arn:" + values_.one["partition"] + ":iam::aws:policy/" + it.managed}});
    if (!it.has_profile) return;
    remark("The profile that gives it to the instances");
    iam("CreateInstanceProfile", {{"InstanceProfileName", it.role}});
    iam("AddRoleToInstanceProfile", {{"InstanceProfileName", it.role}, {"RoleName", it.role}});
  }
  void launch_template(const std::string& name) {
    const OrderedJson data = {{"UserData", launch::base64(std::string(ecs_user_data))},
                              {"MetadataOptions",
                               {{"HttpEndpoint", "enabled"},
                                {"HttpTokens", "required"},
                                {"HttpPutResponseHopLimit", 2}}}};
    text_ += wire::command_of(
                 "ec2", "CreateLaunchTemplate",
                 OrderedJson{{"LaunchTemplateName", name}, {"LaunchTemplateData", data}}.dump()) +
             "\n";
  }
  RoleCommands all() && { return {std::move(text_), std::move(problems_)}; }

 private:
  wire::IamValues values_;
  std::string policy_;
  std::string text_;
  std::string problems_;
};

// The service-linked roles of EC2 and Auto Scaling: made once in an account.
std::set<std::string> services_of(FleetKind kind) {
  if (kind == FleetKind::AutoScalingGroup) return {"spot", "autoscaling"};
  return {"spot", kind == FleetKind::SpotFleet ? "spotfleet" : "ec2fleet"};
}

}  // namespace

RoleCommands role_commands(const config::Job& job, const IamScope& scope) {
  Commands commands(job, scope);
  for (const RolePolicies& it : roles_of(job, scope)) commands.role(it);
  const config::Batch* batch = job.sweep && job.sweep->batch ? &*job.sweep->batch : nullptr;
  std::set<std::string> services;
  if (job.launch) services = services_of(job.launch->type);
  if (batch != nullptr) services.insert({"batch", "spot"});
  if (!services.empty())
    commands.remark("AWS's own roles, once in an account: one that is there already is well");
  for (const std::string& service : services)
    commands.iam("CreateServiceLinkedRole", {{"AWSServiceName", service + ".amazonaws.com"}});
  if (batch == nullptr) return std::move(commands).all();
  const std::string own = launch::resource_name(job) + "-batch";
  if (batch->environment.launch_template.empty())
    commands.remark("Then: sweep.batch.launch_template: " + own);
  commands.remark("Containers get SIGTERM at a notice, and reach the metadata service");
  commands.launch_template(own);
  return std::move(commands).all();
}

}  // namespace spotter::command
