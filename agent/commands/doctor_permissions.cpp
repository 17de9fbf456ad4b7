// Would EC2 allow this role the calls of a move between zones? Only asks, by DryRun.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/CommonParameters.html
#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/services.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/commands/doctor.hpp"
#include "agent/commands/iam.hpp"
#include "agent/config/trainer_role.hpp"

namespace spotter::command {
namespace {

constexpr const char* of_the_role = "give the role what `spotter iam agent` prints";

}  // namespace

Findings examine_calls(AwsCalls& calls, const std::vector<wire::Query>& queries,
                       const std::string& advice) {
  Finding allowed{"permissions", Verdict::Ok, "", ""};
  Findings findings;
  for (const wire::Query& query : queries) {
    const auto answer = calls.perform(wire::dry_run(query));
    if (answer)
      findings.push_back({"permissions", Verdict::Warn,
                          query.action + ": EC2 does not know of dry runs",
                          "whether it is allowed is open"});
    else if (answer.error().code == "DryRunOperation")
      allowed.what += (allowed.what.empty() ? "allowed: " : ", ") + query.action;
    else if (answer.error().forbidden())
      findings.push_back({"permissions", Verdict::Fail, answer.error().message, advice});
    else if (answer.error().code.ends_with("AlreadyExistsException") ||
             answer.error().code == "InvalidPlacementGroup.Duplicate")
      continue;  // a launch template, which gets a new version; or another launch was faster
    else if (answer.error().code.starts_with("Invalid"))
      findings.push_back({"request", Verdict::Fail, answer.error().message, "correct job.yaml"});
    else
      findings.push_back(
          {"permissions", Verdict::Warn, answer.error().message, "whether it is allowed is open"});
  }
  if (!allowed.what.empty()) findings.insert(findings.begin(), std::move(allowed));
  return findings;
}

Findings examine_permissions(AwsCalls& calls, const config::Job& job) {
  const auto who = calls.ask(wire::GetCallerIdentity{});
  if (!who || job.storage.share) return {};
  const InstanceId self(std::string_view(who->arn).substr(who->arn.rfind('/') + 1));
  const config::Tag& tag = job.storage.ebs.tag;
  const auto volumes =
      calls.ask_all(wire::DescribeVolumes{{}, {wire::tagged(tag.key, tag.value)}, {}});
  if (!volumes || volumes->size() != 1) return {};  // reported already
  const wire::Volume& volume = volumes->front();
  const wire::Tags owned{{tag::job, job.volumes_owner()}};
  wire::Tags claim = owned;
  claim[tag::role] = "state";
  claim[tag::generation] = "1";
  wire::CreateVolume copy;
  copy.zone = volume.zone;
  copy.size_gib = 1;
  copy.tags = owned;
  return examine_calls(calls,
                       {encode(wire::AttachVolume{volume.id, self, "/dev/sdf"}),
                        encode(wire::DetachVolume{volume.id, self}),
                        encode(wire::CreateTags{{volume.id.str()}, claim}),
                        encode(wire::CreateSnapshot{volume.id, "Spotter", owned}), encode(copy),
                        encode(wire::DeleteVolume{volume.id})},
                       of_the_role);
}

Findings examine_trainers_role(AwsCalls& calls, const config::Job& job) {
  const char* const check = "trainer's role";
  if (config::has_instances_role(job.trainer))
    return {{check, Verdict::Warn, "the trainer has the instance's own, which may delete volumes",
             "leave trainer.role out, and make what `spotter iam roles` prints"}};
  const auto who = calls.ask(wire::GetCallerIdentity{});
  if (!who) return {};
  const std::string arn = config::trainers_role_arn(job.trainer, *who);
  const auto taken = calls.ask(wire::AssumeRole{arn, "spotter-doctor"});
  if (taken) return {{check, Verdict::Ok, arn + " can be taken", ""}};
  const bool usual = job.trainer.role.empty();
  return {{check, usual ? Verdict::Warn : Verdict::Fail, arn + ": " + taken.error().message,
           std::string("make it and let it be taken, as `spotter iam roles` prints it; ") +
               (usual ? "the trainer has no credentials at AWS without"
                      : "the trainer does not start without")}};
}

Findings examine_batch(const config::Job& job) {
  if (!job.sweep || !job.sweep->batch) return {};
  if (!job.sweep->batch->environment.launch_template.empty()) return {};
  return {
      {"batch", Verdict::Warn,
       "sweep.batch.launch_template is not given: containers get no SIGTERM at a notice, and do "
       "not reach the metadata service",
       "make the one that `spotter iam roles` prints, and name it there"}};
}

Findings examine_policies(const wire::CallerIdentity& who, const Region& region,
                          const config::Job& job) {
  IamScope scope;
  scope.account = who.account;
  scope.region = region;
  scope.role = instances_role_of(job);
  const wire::IamValues values = iam_values(job, scope);
  Findings findings;
  std::string fits;
  for (const RolePolicies& role : roles_of(job, scope)) {
    std::size_t characters = 0;
    std::string problem;
    for (const std::string& name : role.documents) {
      const auto document = filled(name, values);
      if (document) characters += policy_characters(*document);
      if (!document) problem = "no policy: " + document.error().message;
    }
    if (problem.empty()) problem = too_long_for_a_role(characters);
    if (problem.empty())
      fits += (fits.empty() ? "" : ", ") + role.role + " " + with_commas(characters);
    else
      findings.push_back({"policies", Verdict::Warn, role.role + " gets " + problem,
                          "see what `spotter iam roles` prints"});
  }
  if (!fits.empty())
    findings.push_back({"policies", Verdict::Ok,
                        fits + " of " + with_commas(longest_of_a_role) +
                            " characters, which all jobs of a role share",
                        ""});
  return findings;
}

}  // namespace spotter::command
