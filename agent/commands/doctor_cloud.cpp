// Checks EC2's resources for the job: its volume, zones, subnets, types.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/doctor.hpp"
#include "agent/commands/job_storage.hpp"

namespace spotter::command {
namespace {

const char* const allow_it = "allow it: `spotter iam` prints the policies";

Finding refused(const char* check, const CallError& failure) {
  return {check, Verdict::Fail, failure.message, failure.forbidden() ? allow_it : "try again"};
}

// Looks for what would stop the agent from using this volume.
Finding judge(const wire::Volume& volume, const config::Job& job) {
  const std::string what = volume.id.str() + " in " + volume.zone.str() + ", " + volume.type +
                           ", " + std::to_string(volume.size_gib) + " GiB, " +
                           std::string(to_text(volume.state));
  const std::string owner = wire::value_of(volume.tags, tag::job);
  if (!owner.empty() && owner != job.volumes_owner())
    return {"volume", Verdict::Fail, what + ", is of the job " + owner,
            "give this job a tag of its own in storage.ebs.tag, or remove the tag spotter:job"};
  if (volume.state == wire::VolumeState::Error)
    return {"volume", Verdict::Fail, what, "make another and move the tag to it"};
  if (!wire::value_of(volume.tags, tag::done).empty())
    return {"volume", Verdict::Warn, what + ", says that the job is done",
            how_to_run_again(volume)};
  const bool new_and_blank = owner.empty() && volume.from_snapshot.empty();
  if (new_and_blank && wire::value_of(volume.tags, tag::format).empty())
    return {"volume", Verdict::Warn, what + ", was never used by Spotter",
            "if it is new and empty, give it the tag spotter:format=blank: only then it gets a "
            "file system"};
  return {"volume", Verdict::Ok, what, ""};
}

Finding move_of(const config::Job& job, std::uint64_t gibibytes) {
  return {"move", Verdict::Ok, words_of_move(job, gibibytes), ""};
}

// With a fence the original of a move carries the tag, too, until it is deleted while the job runs
// on the copy.
void erase_originals(std::vector<wire::Volume>& found) {
  const auto line = [](const wire::Volume& it) {
    const std::string lineage = wire::value_of(it.tags, tag::lineage);
    return lineage.empty() ? it.id.str() : lineage;
  };
  const auto moves = [](const wire::Volume& it) {
    return std::atoi(wire::value_of(it.tags, tag::moves).c_str());
  };
  const std::vector<wire::Volume> all = found;
  std::erase_if(found, [&](const wire::Volume& it) {
    return std::ranges::any_of(all, [&](const wire::Volume& other) {
      return line(other) == line(it) && moves(other) > moves(it);
    });
  });
}

Findings judge_tag(AwsCalls& calls, const config::Job& job, const DoctorScope& scope) {
  config::Tag tag = job.storage.ebs.tag;
  // Each experiment has its own volume: see config::Job.
  const std::string more =
      job.sweep && !job.experiment ? std::string{config::before_index, '*'} : "";
  const std::string pattern = wire::exactly(tag.value) + more;
  tag.value += more;
  const std::string named = "the tag " + tag.key + "=" + tag.value;
  auto found = calls.ask_all(wire::DescribeVolumes{{}, {{"tag:" + tag.key, {pattern}}}, {}});
  if (!found) return {refused("volume", found.error())};
  std::erase_if(*found, [](const wire::Volume& it) {
    return it.state == wire::VolumeState::Deleting || it.state == wire::VolumeState::Deleted;
  });
  if (job.sweep && !job.experiment)
    return {{"volume", Verdict::Ok,
             std::to_string(found->size()) + " volumes of experiments carry " + named, ""}};
  if (found->empty() && scope.makes_volume)
    return {{"volume", Verdict::Ok, "no volume carries " + named + ", one will be made", ""},
            move_of(job, job.launch->volume->size_gib)};
  if (found->empty())
    return {{"volume", Verdict::Fail, "no volume in this region carries " + named,
             "make one, or give the tag to the one that is meant"}};
  erase_originals(*found);
  if (found->size() == 1)
    return {judge(found->front(), job), move_of(job, found->front().size_gib)};
  std::set<std::string> ids;
  for (const wire::Volume& it : *found) ids.insert(it.id.str());
  return {{"volume", Verdict::Fail,
           std::to_string(ids.size()) + " volumes carry " + named + " (" + joined(ids) + ")",
           "take the tag from all but one"}};
}

// Checks the snapshot from which a volume of data is made.
Finding judge_data(AwsCalls& calls, const config::DataVolume& data) {
  wire::DescribeSnapshots request;
  request.filters = {{"snapshot-id", {data.snapshot}}};
  const auto found = calls.ask_all(request);
  if (!found) return refused("data", found.error());
  const std::string what = data.snapshot + " for " + data.mount;
  if (found->empty())
    return {"data", Verdict::Warn, what + ": this account has no such snapshot in this region",
            "if another account shares it, all may be well; else correct job.yaml"};
  const wire::Snapshot& seen = found->front();
  if (seen.state != wire::SnapshotState::Completed)
    return {"data", Verdict::Fail,
            what + " is not completed: " + std::to_string(seen.progress) + " %",
            "wait until it is, or name another"};
  return {"data", Verdict::Ok, what + ", " + std::to_string(seen.size_gib) + " GiB", ""};
}

// The zones that exist, and those in which the job may run.
struct Zones {
  std::set<std::string> all;
  std::map<std::string, std::string> names;  // by id
  Findings findings;
};
Zones zones_of(AwsCalls& calls, const DoctorScope& scope) {
  Zones zones;
  const auto there = calls.ask(wire::DescribeAvailabilityZones{});
  if (!there) {
    zones.findings.push_back(refused("zones", there.error()));
    return zones;
  }
  std::set<std::string> known, impaired;
  for (const auto& it : there->items) {
    known.insert(it.zone.str());
    zones.names[it.id] = it.zone.str();
    if (it.state != "available") impaired.insert(it.zone.str());
  }
  std::set<std::string> unknown;
  for (const std::string& wanted : scope.zones)
    (known.contains(wanted) ? zones.all : unknown).insert(wanted);
  if (scope.zones.empty()) zones.all = known;
  if (!unknown.empty())
    zones.findings.push_back(
        {"zones", Verdict::Fail,
         "this account has no " + joined(unknown) + " in " + calls.region().str(),
         "choose among " + joined(known)});
  else if (!impaired.empty())
    zones.findings.push_back(
        {"zones", Verdict::Warn, "not available now: " + joined(impaired), "wait, or leave out"});
  else
    zones.findings.push_back({"zones", Verdict::Ok, joined(zones.all), ""});
  return zones;
}

Finding judge_subnets(AwsCalls& calls, const DoctorScope& scope,
                      const std::set<std::string>& zones) {
  wire::DescribeSubnets request{.subnets = scope.subnets};
  if (scope.subnets.empty()) request.filters = {{"default-for-az", {"true"}}};
  const auto found = calls.ask_all(std::move(request));
  if (!found && found.error().code == "InvalidSubnetID.NotFound")
    return {"subnets", Verdict::Fail, found.error().message, "name subnets of this region"};
  if (!found) return refused("subnets", found.error());
  std::set<std::string> without = zones, full;
  for (const wire::Subnet& it : *found) {
    without.erase(it.zone.str());
    if (it.free_addresses == 0) full.insert(it.id);
  }
  const char* const which = scope.subnets.empty() ? "default subnets" : "subnets";
  if (without == zones)
    return {"subnets", Verdict::Fail, std::string("there are no ") + which + " in " + joined(zones),
            "name subnets, or make the default ones: `aws ec2 create-default-subnet`"};
  if (!full.empty())
    return {"subnets", Verdict::Fail, "no address is free in " + joined(full), "name others"};
  if (!without.empty())
    return {"subnets", Verdict::Warn, std::string("no ") + which + " in " + joined(without),
            "nothing will be launched there"};
  return {"subnets", Verdict::Ok, std::to_string(found->size()) + " in " + joined(zones), ""};
}

Finding judge_types(AwsCalls& calls, const DoctorScope& scope, const std::set<std::string>& zones) {
  const auto found = calls.ask_all(wire::DescribeInstanceTypeOfferings{scope.types, {}});
  if (!found) return refused("types", found.error());
  std::set<std::string> unknown(scope.types.begin(), scope.types.end());
  std::set<std::string> without = zones;
  for (const wire::TypeOffering& it : *found) {
    if (!zones.contains(it.zone.str())) continue;
    unknown.erase(it.type.str());
    without.erase(it.zone.str());
  }
  const std::set<std::string> all(scope.types.begin(), scope.types.end());
  if (unknown == all)
    return {"types", Verdict::Fail, "none of these zones has " + joined(all),
            "choose other instance types or zones"};
  if (!unknown.empty())
    return {"types", Verdict::Warn, "in none of these zones: " + joined(unknown),
            "they will never be launched"};
  if (!without.empty())
    return {"types", Verdict::Warn, "nothing of " + joined(all) + " in " + joined(without),
            "nothing will be launched there"};
  return {"types", Verdict::Ok, joined(all), ""};
}

// EC2's own estimate, which says something of three types and more. It refuses nothing.
Finding judge_capacity(AwsCalls& calls, const DoctorScope& scope, const Zones& zones) {
  constexpr std::uint64_t likely = 4;  // of 10
  const auto found = calls.ask_all(
      wire::GetSpotPlacementScores{scope.types, scope.capacity.value_or(1), calls.region()});
  if (!found)
    return {"capacity", Verdict::Ok, "EC2 was not asked how likely it is: " + found.error().message,
            ""};
  std::set<std::string> scores;
  std::uint64_t best = 0;
  for (const wire::SpotPlacementScore& it : *found) {
    const auto name = zones.names.find(it.zone_id);
    if (name == zones.names.end() || !zones.all.contains(name->second)) continue;
    scores.insert(name->second + " " + std::to_string(it.score));
    best = std::max(best, it.score);
  }
  const std::string what = scores.empty() ? "EC2 has no spot placement score for these zones"
                                          : "spot placement scores, 10 is best: " + joined(scores);
  if (best >= likely) return {"capacity", Verdict::Ok, what, ""};
  return {"capacity", Verdict::Warn, what, "it may wait: name more instance types or zones"};
}

}  // namespace

Findings examine_storage(AwsCalls& calls, const config::Job& job, const DoctorScope& scope) {
  if (!job.storage.share) {
    Findings findings = judge_tag(calls, job, scope);
    for (const config::DataVolume& data : job.storage.data)
      findings.push_back(judge_data(calls, data));
    return findings;
  }
  const config::Share& share = *job.storage.share;
  if (job.storage.in_bucket()) return {{"storage", Verdict::Ok, config::describe(share), ""}};
  const bool shared_out = job.claims || job.gang;
  if (scope.capacity.value_or(1) > 1 && !shared_out)
    return {{"storage", Verdict::Fail,
             std::to_string(*scope.capacity) + " instances at once would write to " +
                 config::describe(share),
             "launch one, or let them share out the work: `claims: {at: s3://...}`"}};
  if (!shared_out)
    return {{"storage", Verdict::Warn, config::describe(share) + ", and nothing locks it",
             "launch one instance at a time, or add `claims:`"}};
  return {{"storage", Verdict::Ok, config::describe(share), ""}};
}

Findings examine_places(AwsCalls& calls, const config::Job&, const DoctorScope& scope) {
  Zones zones = zones_of(calls, scope);
  Findings findings = std::move(zones.findings);
  if (zones.all.empty()) return findings;
  findings.push_back(judge_subnets(calls, scope, zones.all));
  if (!scope.types.empty()) findings.push_back(judge_types(calls, scope, zones.all));
  if (std::set(scope.types.begin(), scope.types.end()).size() >= 3)
    findings.push_back(judge_capacity(calls, scope, zones));
  return findings;
}

}  // namespace spotter::command
