#include "agent/tools/jobs/machines.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "agent/tools/jobs/efa.hpp"
#include "agent/tools/jobs/launched_job.hpp"
#include "agent/tools/jobs/placement_group.hpp"
#include "agent/tools/jobs/unanswered.hpp"

namespace spotter::command {

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

}  // namespace spotter::command
