// Checks storage.efs: instances reach a file system by the mount target of their own zone. The name
// of a file system has no address in a zone without one, so a job would be blocked there, and cost.
#include <algorithm>
#include <map>
#include <set>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/services.hpp"
#include "agent/commands/doctor.hpp"

namespace spotter::command {
namespace {

using Verdict = Finding::Verdict;

constexpr const char* efs_check = "efs";

// The launching user may have the policy of an earlier version: that alone stops no launch.
Finding not_looked_at(const CallError& failure) {
  return {efs_check, Verdict::Warn, failure.message,
          failure.forbidden() ? "whether it can be mounted is open: give who launches what "
                                "`spotter iam launcher` prints"
                              : "whether it can be mounted is open: try again"};
}

// The zones in which the job may run, each with one of its subnets; empty where none is known.
std::map<std::string, std::string> places_of(AwsCalls& calls, const DoctorScope& scope) {
  wire::DescribeSubnets request{.subnets = scope.subnets};
  if (scope.subnets.empty()) request.filters = {{"default-for-az", {"true"}}};
  std::map<std::string, std::string> places;
  for (const std::string& zone : scope.zones)
    if (scope.subnets.empty()) places[zone] = "";
  const auto found = calls.ask_all(std::move(request));
  if (!found) return places;  // examine_places() says so
  for (const wire::Subnet& it : *found)
    if (scope.zones.empty() || !scope.subnets.empty() || places.contains(it.zone.str()))
      places[it.zone.str()] = it.id;
  return places;
}

std::string command_for(const std::string& file_system, const std::string& subnet,
                        const config::Job& job) {
  const std::string place = subnet.empty() ? "SUBNET" : subnet;
  const std::string command =
      "aws efs create-mount-target --file-system-id " + file_system + " --subnet-id " + place;
  if (!job.launch || job.launch->security_groups.empty()) return command;
  return command + " --security-groups GROUP, of a group that lets TCP port 2049 in from " +
         job.launch->security_groups.front();
}

struct Mounting {
  const config::Job& job;
  wire::FileSystem file_system;
  bool stops = false;  // a launch: the job is sure to run there
};

Finding judge_zone(const Mounting& it, const std::string& zone, const std::string& subnet,
                   const std::vector<wire::MountTarget>& targets) {
  const std::string& id = it.file_system.id;
  const auto target =
      std::ranges::find(targets, zone, [](const auto& one) { return one.zone.str(); });
  if (target == targets.end())
    return {efs_check, it.stops ? Verdict::Fail : Verdict::Warn,
            id + " has no mount target in " + zone + ": an instance there cannot mount it",
            "make one, or leave that zone out: " + command_for(id, subnet, it.job)};
  if (target->state != "available")
    return {efs_check, it.stops ? Verdict::Fail : Verdict::Warn,
            id + ": its mount target in " + zone + ", " + target->id + ", is " + target->state,
            target->state == "creating" ? "wait until it is available: a minute or two"
                                        : "make another"};
  return {efs_check, Verdict::Ok, zone + " (" + target->id + ")", ""};
}

// A finding for each zone that lacks a target, and one for all others.
Findings judge_zones(const Mounting& it, const std::map<std::string, std::string>& places,
                     const std::vector<wire::MountTarget>& targets) {
  Findings findings;
  std::string good;
  for (const auto& [zone, subnet] : places) {
    Finding one = judge_zone(it, zone, subnet, targets);
    if (one.verdict == Verdict::Ok)
      good += (good.empty() ? "" : ", ") + one.what;
    else
      findings.push_back(std::move(one));
  }
  if (!good.empty())
    findings.push_back({efs_check, Verdict::Ok,
                        it.file_system.id + " has mount targets in " + good +
                            "; whether their security groups let the instances in (TCP port "
                            "2049) was not looked at",
                        ""});
  return findings;
}

// One Zone: its only mount target is in that zone, and is the one that the option az names.
// https://docs.aws.amazon.com/efs/latest/ug/mounting-one-zone.html
Findings keep_to_one_zone(const Mounting& mounting, std::map<std::string, std::string>& places) {
  const wire::FileSystem& it = mounting.file_system;
  std::string others;
  for (const auto& [zone, subnet] : places)
    if (zone != it.zone.str()) others += (others.empty() ? "" : ", ") + zone;
  std::erase_if(places, [&](const auto& place) { return place.first != it.zone.str(); });
  if (others.empty()) return {};
  return {{efs_check, mounting.stops ? Verdict::Fail : Verdict::Warn,
           it.id + " is of one zone, " + it.zone.str() + ", and the job may run in " + others,
           "launch.zones: [" + it.zone.str() +
               "], or name that zone to mount.efs: options: \"az=" + it.zone.str() + "\""}};
}

Findings judge_state(const wire::FileSystem& it) {
  if (it.state == "available" || it.state == "updating") return {};
  return {
      {efs_check, Verdict::Fail, it.id + " is " + it.state,
       it.state == "creating" ? "wait until it is available" : "name another in storage.efs.id"}};
}

}  // namespace

Findings examine_file_system(AwsCalls& calls, const config::Job& job, const DoctorScope& scope) {
  if (!job.storage.share || job.storage.share->kind != config::Share::Kind::Efs) return {};
  const config::Share& share = *job.storage.share;
  const std::string id = config::efs_file_system(share, calls.region().view());
  if (id.empty())
    return {{efs_check, Verdict::Warn,
             share.server + " is a name that does not say which file system of " +
                 calls.region().str() + " it is",
             "it was not looked at: give storage.efs.id as fs-..."}};
  const auto found = calls.ask_all(wire::DescribeFileSystems{id});
  if (!found && found.error().kind == CallError::Kind::NotFound)
    return {{efs_check, Verdict::Fail, "there is no " + id + " in " + calls.region().str(),
             "correct storage.efs.id, or make one: aws efs create-file-system --encrypted"}};
  if (!found) return {not_looked_at(found.error())};
  if (found->empty()) return {{efs_check, Verdict::Fail, "EFS shows no " + id, "try again"}};
  const Mounting mounting{job, found->front(),
                          job.launch || !scope.zones.empty() || !scope.subnets.empty()};
  if (auto findings = judge_state(mounting.file_system); !findings.empty()) return findings;
  const auto targets = calls.ask_all(wire::DescribeMountTargets{id});
  if (!targets) return {not_looked_at(targets.error())};
  if (const auto zone = config::mount_option(share, "az"))
    return judge_zones(mounting, {{*zone, ""}}, *targets);
  auto places = places_of(calls, scope);
  Findings findings;
  if (!mounting.file_system.zone.empty()) findings = keep_to_one_zone(mounting, places);
  std::ranges::move(judge_zones(mounting, places, *targets), std::back_inserter(findings));
  return findings;
}

}  // namespace spotter::command
