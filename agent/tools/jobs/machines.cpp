#include "agent/tools/jobs/machines.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/io/complain.hpp"
#include "agent/tools/jobs/launched_job.hpp"
#include "agent/tools/jobs/placement_group.hpp"

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

Findings examine_machines(AwsCalls& calls, const config::Job& job,
                          const std::vector<launch::SentPackage>& packages) {
  Findings findings;
  launch::Machines machines;
  for (const launch::SentPackage& it : packages) machines.packages.push_back(it.file);
  machines.now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  auto types = calls.ask_all(wire::DescribeInstanceTypes{job.launch->instance_types, {}});
  if (types)
    machines.types = std::move(*types);
  else
    findings.push_back(
        unanswered("gpus", types.error(), "whether the instance types fit the job and the image"));
  if (const auto image = image_of(calls, *job.launch)) {
    machines.image = *image;
    auto seen = calls.ask_all(wire::DescribeImages{{*image}, {}});
    const bool missing = !seen && seen.error().code.starts_with("InvalidAMIID.");
    if (seen)
      machines.seen = std::move(*seen);
    else if (missing)
      machines.seen.emplace();
    else
      findings.push_back(unanswered("image", seen.error(), "whether " + *image + " fits"));
  }
  auto reached = examine_efa(calls, job);
  std::ranges::move(reached, std::back_inserter(findings));
  auto placed = examine_placement_group(calls, job);
  std::ranges::move(placed.findings, std::back_inserter(findings));
  machines.named_strategy = std::move(placed.strategy);
  auto judged = launch::judge_machines(job, machines);
  std::ranges::move(judged, std::back_inserter(findings));
  return findings;
}

namespace {

using Clock = std::chrono::steady_clock;

// The longest that people have seen; AWS names no bound.
constexpr std::chrono::minutes until_it_is_known{2};
constexpr std::chrono::seconds until_asked_again{3};

bool is_unknown_profile(const CallError& error) {
  return error.message.find("Invalid IAM Instance Profile") != std::string::npos;
}

}  // namespace

Finding examine_profile(AwsCalls& calls, const config::Launch& launch) {
  constexpr const char* check = "profile";
  const std::string name = launch.profile.substr(launch.profile.rfind('/') + 1);
  const auto found = calls.ask(wire::GetInstanceProfile{name, calls.region()});
  if (found && !found->role.empty())
    return {check, Verdict::Ok, name + " gives instances the role " + found->role, ""};
  if (found)
    return {check, Verdict::Fail, "the instance profile " + name + " has no role",
            "add it: `spotter iam roles` prints the commands"};
  if (found.error().code == "NoSuchEntity")
    return {check, Verdict::Fail, "this account has no instance profile " + name,
            "make it: `spotter iam roles` prints the commands"};
  return {check, Verdict::Warn, found.error().message,
          found.error().forbidden()
              ? "whether it is there is open: give who launches what `spotter iam launcher` prints"
              : "whether it is there is open"};
}

Result<void, CallError> await_profile(AwsCalls& calls, const wire::Query& run,
                                      const char* command) {
  const auto until = Clock::now() + until_it_is_known;
  for (bool said = false;; said = true) {
    const auto answer = calls.perform(wire::dry_run(run));
    if (answer || !is_unknown_profile(answer.error())) return {};
    if (Clock::now() > until) return tl::unexpected(answer.error());
    if (!said)
      io::complain(command,
                   "EC2 does not know the instance profile yet: IAM tells it of a new one within "
                   "two minutes; waiting");
    std::this_thread::sleep_for(until_asked_again);
  }
}

}  // namespace spotter::command
