// Would EC2 let this role do what a move between zones takes? Nothing of it is done: DryRun.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/CommonParameters.html
#include "agent/act/cloud.hpp"
#include "agent/command/doctor.hpp"
#include "agent/wire/ec2_places.hpp"

namespace spotter::command {
namespace {

using Verdict = Finding::Verdict;

struct Asked {
  std::string allowed;  // names of actions
  Findings refused;
};

template <class Request>
void ask(AwsCalls& calls, const Request& request, Asked& asked) {
  const wire::Query query = wire::dry_run(wire::encode(request));
  const auto answer = calls.perform(query);
  const std::string code = answer ? "" : answer.error().code;
  if (code == "DryRunOperation") {
    asked.allowed += (asked.allowed.empty() ? "" : ", ") + query.action;
    return;
  }
  if (answer)
    asked.refused.push_back({"permissions", Verdict::Warn,
                             query.action + ": EC2 does not know of dry runs",
                             "whether it is allowed is open"});
  else if (answer.error().permission)
    asked.refused.push_back({"permissions", Verdict::Fail, answer.error().message,
                             "give the role what `spotter iam agent` prints"});
  else
    asked.refused.push_back(
        {"permissions", Verdict::Warn, answer.error().message, "whether it is allowed is open"});
}

}  // namespace

Findings examine_permissions(AwsCalls& calls, const config::Job& job) {
  const auto who = calls.ask(wire::GetCallerIdentity{});
  if (!who || job.storage.share) return {};
  const InstanceId self(std::string_view(who->arn).substr(who->arn.rfind('/') + 1));
  const config::Tag& tag = job.storage.ebs.tag;
  const auto volumes =
      calls.ask_all(wire::DescribeVolumes{{}, {{"tag:" + tag.key, {tag.value}}}, {}});
  if (!volumes || volumes->size() != 1) return {};  // told already
  const wire::Volume& volume = volumes->front();
  const wire::Tags owned{{act::tag::job, job.volumes_owner()}};
  wire::Tags claim = owned;
  claim[act::tag::role] = "state";
  claim[act::tag::generation] = "1";
  Asked asked;
  ask(calls, wire::AttachVolume{volume.id, self, "/dev/sdf"}, asked);
  ask(calls, wire::DetachVolume{volume.id, self}, asked);
  ask(calls, wire::CreateTags{{volume.id.str()}, claim}, asked);
  ask(calls, wire::CreateSnapshot{volume.id, "Spotter", owned}, asked);
  wire::CreateVolume copy;
  copy.zone = volume.zone;
  copy.size_gib = 1;
  copy.tags = owned;
  ask(calls, copy, asked);
  ask(calls, wire::DeleteVolume{volume.id}, asked);
  if (!asked.allowed.empty())
    asked.refused.insert(asked.refused.begin(),
                         {"permissions", Verdict::Ok, "allowed: " + asked.allowed, ""});
  return std::move(asked.refused);
}

}  // namespace spotter::command
