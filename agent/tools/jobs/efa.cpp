#include "agent/tools/jobs/efa.hpp"

#include <algorithm>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/tools/jobs/unanswered.hpp"

namespace spotter::command {
namespace {

using Verdict = Finding::Verdict;

std::string rule(const char* direction, const std::string& group) {
  return "aws ec2 authorize-security-group-" + std::string(direction) + " --group-id " + group +
         " --ip-permissions 'IpProtocol=-1,UserIdGroupPairs=[{GroupId=" + group + "}]'";
}

}  // namespace

Findings examine_efa(AwsCalls& calls, const config::Job& job) {
  const char* const check = "efa";
  if (!job.launch->efa) return {};
  const auto& named = job.launch->security_groups;
  const auto groups = calls.ask_all(wire::DescribeSecurityGroups{named});
  if (!groups && groups.error().code.starts_with("InvalidGroup"))
    return {{check, Verdict::Fail, groups.error().message,
             "name security groups of this region in launch.security_groups"}};
  if (!groups)
    return {unanswered(check, groups.error(), "whether the security groups let EFA through")};
  const auto fits = [](const auto& it) { return it.lets_itself_in && it.lets_itself_out; };
  const auto it = std::ranges::find_if(*groups, fits);
  if (it != groups->end())
    return {{check, Verdict::Ok, it->id + " lets EFA's traffic through", ""}};
  return {{check, Verdict::Fail,
           "none of launch.security_groups lets all traffic in from itself and out to itself, as "
           "EFA needs",
           "let one: " + rule("ingress", named.front()) + "; " + rule("egress", named.front())}};
}

Result<launch::Interfaces, CallError> efa_interfaces(AwsCalls& calls, const config::Job& job) {
  if (!job.launch->efa) return launch::Interfaces();
  const auto types = calls.ask_all(wire::DescribeInstanceTypes{job.launch->instance_types, {}});
  if (!types) return tl::unexpected(types.error());
  auto shared = launch::shared_interfaces(*types);
  if (!shared) return failed(shared.error().message);
  return *shared;
}

}  // namespace spotter::command
