// Would AWS launch what `launch:` requests? EC2 itself reports that late or never: a fleet that
// cannot start any instance exists, and waits.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/iam.hpp"
#include "agent/aws/formats/partition.hpp"
#include "agent/aws/formats/services.hpp"
#include "agent/commands/code_archive.hpp"
#include "agent/commands/doctor.hpp"
#include "agent/commands/iam.hpp"
#include "agent/commands/job_storage.hpp"
#include "agent/commands/machines.hpp"
#include "agent/config/trainer_role.hpp"
#include "agent/launch/fallback.hpp"
#include "agent/supervise/account.hpp"

namespace spotter::command {
namespace {

const char* const of_the_launcher = "give who launches what `spotter iam launcher` prints";

std::string whole(double number) { return std::to_string(std::llround(number)); }

using QuotaOf = const wire::InstanceQuota* (*)(std::string_view);

// One quota: how many instances of these types it allows.
struct Counted {
  const wire::InstanceQuota* quota;
  double vcpus = 0;
  std::vector<wire::TypeSize> types;
};

Finding judge(const Counted& it, const Region& region, int capacity) {
  const auto least =
      std::ranges::min(it.types, {}, [](const wire::TypeSize& type) { return type.vcpus; });
  std::string what = std::string(it.quota->name) + " (" + std::string(it.quota->code) + ") is " +
                     whole(it.vcpus) + " vCPUs in " + region.str();
  std::string too_large;
  std::uint64_t wanted = 0;
  for (const wire::TypeSize& type : it.types) {
    const std::uint64_t all = type.vcpus * static_cast<std::uint64_t>(capacity);
    if (it.vcpus >= static_cast<double>(all)) continue;
    too_large += (too_large.empty() ? "" : ", ") + type.type.str();
    wanted = std::max(wanted, all);
  }
  if (too_large.empty()) return {"quota", Verdict::Ok, what, ""};
  const bool none = it.vcpus < static_cast<double>(least.vcpus);
  what += none ? ", too few for " : ", too few for " + std::to_string(capacity) + " of ";
  return {"quota", none ? Verdict::Fail : Verdict::Warn, what + too_large,
          "ask for more: aws service-quotas request-service-quota-increase --service-code ec2 "
          "--quota-code " +
              std::string(it.quota->code) + " --desired-value " + std::to_string(wanted)};
}

bool volume_is_missing(AwsCalls& calls, const config::Job& job) {
  if (job.storage.share || job.sweep || !job.launch->volume) return false;
  const config::Tag& tag = job.storage.ebs.tag;
  const auto found =
      calls.ask_all(wire::DescribeVolumes{{}, {wire::tagged(tag.key, tag.value)}, {}});
  return found && found->empty();
}

// `wanted`: how many instances of that kind.
Findings quotas_of(AwsCalls& calls, const std::vector<wire::TypeSize>& sizes, QuotaOf quota_of,
                   int wanted) {
  std::map<std::string_view, Counted> counted;
  bool one_is_open = false;  // a type without a known quota
  for (const wire::TypeSize& size : sizes) {
    const auto* quota = quota_of(size.type.view());
    one_is_open = one_is_open || quota == nullptr;
    if (quota == nullptr) continue;
    counted.try_emplace(quota->code, Counted{quota, 0, {}}).first->second.types.push_back(size);
  }
  Findings findings;
  for (auto& [code, it] : counted) {
    const auto value = calls.ask(wire::GetEc2Quota{std::string(code)});
    if (!value) {
      findings.push_back({"quota", Verdict::Warn, value.error().message,
                          "whether it suffices is open; look in the console"});
      continue;
    }
    it.vcpus = *value;
    findings.push_back(judge(it, calls.region(), wanted));
  }
  // A launch succeeds if one type can start.
  const bool one_fits =
      std::ranges::any_of(findings, [](const Finding& it) { return it.verdict != Verdict::Fail; });
  if (one_fits || one_is_open)
    for (Finding& it : findings) it.verdict = std::min(it.verdict, Verdict::Warn);
  return findings;
}

// Why nothing can be launched into it; empty: something can, as far as there is room.
std::string wrong_with(const wire::CapacityReservation& it, const config::Launch& launch,
                       wire::WallTime now) {
  const bool fits = launch.reservation->interruptible ? it.interruptible : it.is_block;
  if (!fits) return "is of another kind than launch.capacity_reservation says";
  if (launch.instance_types.front() != it.type.str()) return "is of " + it.type.str();
  if (!launch.zones.empty() && launch.zones.front() != it.zone.str())
    return "is in " + it.zone.str();
  if (it.state == "scheduled" && it.begins) return "begins at " + wire::to_rfc3339(*it.begins);
  if (it.state != "active") return "is " + it.state;
  if (it.is_block && it.ends && *it.ends - wire::block_clears_in <= now)
    return "ends at " + wire::to_rfc3339(*it.ends) + ", and EC2 clears it already";
  return {};
}

// Nothing that is running is given up for a launch that it would refuse.
Finding examine_reservation(AwsCalls& calls, const config::Launch& launch) {
  constexpr const char* check = "reservation";
  const std::string& id = launch.reservation->id;
  const auto seen = calls.ask(wire::DescribeCapacityReservations{{id}});
  if (!seen && seen.error().kind != CallError::Kind::NotFound)
    return unanswered(check, seen.error(), "whether it can be used");
  if (!seen || seen->items.empty())
    return {check, Verdict::Fail, id + " is not there", "correct launch.capacity_reservation"};
  const wire::CapacityReservation& it = seen->items.front();
  const std::string wrong = wrong_with(it, launch, calls.now());
  if (!wrong.empty())
    return {check, Verdict::Fail, id + " " + wrong,
            "wait, or correct launch.capacity_reservation, instance_types, zones"};
  const std::string what = id + " has room for " + std::to_string(it.available) + " of " +
                           it.type.str() + " in " + it.zone.str() +
                           (it.ends ? ", and ends at " + wire::to_rfc3339(*it.ends) : "");
  const bool room = it.available >= static_cast<std::uint64_t>(launch.capacity);
  if (room) return {check, Verdict::Ok, what, ""};
  return {check, Verdict::Warn, what + ", too few for " + std::to_string(launch.capacity),
          "the job's own machines may have the rest: a launch ends them first"};
}

// It asks for spot capacity, or a watcher has it rest.
bool is_watched(const JobFleet& it) {
  const auto mark = launch::mark_of(it.watched);
  const bool rests = mark && mark->spot == launch::WatchMark::Spot::Rests;
  return it.is_at_work() && it.is_own() && (it.target > 0 || rests);
}

// Would the role of the instances be allowed what they need?

using Json = nlohmann::json;
using Simulate = wire::SimulatePrincipalPolicy;

std::vector<std::string> texts_of(const Json& value) {
  if (value.is_array()) return value.get<std::vector<std::string>>();
  return {value.is_string() ? value.get<std::string>() : value.dump()};
}

// One of those that a policy's pattern stands for.
std::string example_of(std::string_view pattern) {
  std::string text;
  for (; !pattern.empty(); pattern.remove_prefix(1)) {
    const bool literal = pattern.starts_with("${") && pattern.size() > 3 && pattern[3] == '}';
    if (literal) {
      text += pattern[2];
      pattern.remove_prefix(3);
    } else if (pattern[0] == '*') {
      text += "spotter";
    } else {
      text += pattern[0];
    }
  }
  return text;
}

// A call for which the statement's own conditions hold.
std::vector<Simulate::Entry> context_of(const Json& statement) {
  std::map<std::string, Simulate::Entry> entries;
  const Json conditions = statement.value("Condition", Json::object());
  for (const auto& [operation, keys] : conditions.items()) {
    const bool all = operation.starts_with("ForAllValues:");
    for (const auto& [key, wanted] : keys.items()) {
      auto values = texts_of(wanted);
      if (!all && values.size() > 1) values.resize(1);
      for (std::string& it : values) it = example_of(it);
      const char* one = operation == "Bool" ? "boolean" : "string";
      entries.try_emplace(key, Simulate::Entry{key, all ? "stringList" : one, std::move(values)});
    }
  }
  std::vector<Simulate::Entry> list;
  for (auto& [key, entry] : entries) list.push_back(std::move(entry));
  return list;
}

// These name a volume by its tag alone, which an account's roles leave out: what Spotter makes has
// tags of its own. Prices only inform.
bool is_needed(const Json& statement, const config::Launch& launch) {
  const std::string sid = statement.value("Sid", "");
  if (sid == "EndTheAutoScalingGroup") return launch.type == FleetKind::AutoScalingGroup;
  return sid != "UseTheVolumeThatTheTagNames" && sid != "ClaimTheVolumeThatTheTagNames" &&
         sid != "LookAtOnDemandPrices" && sid != "TellATopic";  // trained without, all the same
}

struct Proof {
  std::size_t allowed = 0;
  std::string missing, statements;  // ec2:AttachVolume, ...; by which it would be allowed
};

Result<void, CallError> prove(AwsCalls& calls, const std::string& role, const Json& statement,
                              Proof& proof) {
  Simulate asked{role, texts_of(statement.at("Action")), {}, context_of(statement), calls.region()};
  for (const std::string& it : texts_of(statement.at("Resource")))
    asked.resources.push_back(it == "*" ? it : example_of(it));
  const auto answer = TRY(calls.ask(asked));
  bool all = true;
  for (const std::string& action : asked.actions) {
    const auto is_refused = [&](const auto& it) { return it.action == action && !it.allowed; };
    const auto is_answered = [&](const auto& it) { return it.action == action; };
    const bool may =
        std::ranges::any_of(answer, is_answered) && std::ranges::none_of(answer, is_refused);
    proof.allowed += may ? 1 : 0;
    all = all && may;
    if (!may && (proof.missing + ",").find(action + ",") == std::string::npos)
      proof.missing += (proof.missing.empty() ? "" : ", ") + action;
  }
  if (!all)
    proof.statements +=
        (proof.statements.empty() ? "" : ", ") + statement.value("Sid", std::string());
  return {};
}

// Checks storage.efs: instances reach a file system by the mount target of their own zone. The name
// of a file system has no address in a zone without one, so a job would be blocked there, and cost.

constexpr const char* efs_check = "efs";

constexpr const char* open_with_efs = "whether it can be mounted";

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

// Names that a setting of a tokenizer, a cache key's length or the like has are not meant.
bool seems_secret(const std::string& name) {
  std::string upper;
  for (const char each : name)
    upper += static_cast<char>(std::toupper(static_cast<unsigned char>(each)));
  for (const std::string_view word : {"TOKEN", "KEY", "SECRET", "PASSWD", "CREDENTIALS"})
    if (upper == word || upper.ends_with("_" + std::string(word))) return true;
  return upper.find("PASSWORD") != upper.npos || upper.ends_with("APIKEY");
}

}  // namespace

DoctorScope scope_of(const config::Job& job) {
  if (!job.launch) return {};
  const config::Launch& launch = *job.launch;
  return {launch.instance_types, launch.zones, launch.subnets,
          static_cast<std::uint32_t>(launch.capacity), launch.volume.has_value()};
}

Findings examine_quotas(AwsCalls& calls, const config::Launch& launch) {
  using When = config::OnDemand::When;
  if (launch.reservation) return {examine_reservation(calls, launch)};
  const auto sizes = calls.ask_all(wire::DescribeInstanceTypes{launch.instance_types, {}});
  if (!sizes) return {unanswered("quota", sizes.error(), "whether the quotas suffice")};
  if (launch.on_demand.when == When::Always)
    return quotas_of(calls, *sizes, wire::on_demand_quota_of, launch.capacity);
  Findings findings = quotas_of(calls, *sizes, wire::spot_quota_of, launch.capacity);
  if (launch.on_demand.when == When::Never) return findings;
  for (Finding& it : quotas_of(calls, *sizes, wire::on_demand_quota_of, 1)) {
    it.verdict = std::min(it.verdict, Verdict::Warn);  // spot instances do without
    findings.push_back(std::move(it));
  }
  return findings;
}

Findings examine_watchers(const config::Job& job) {
  if (!job.launch->on_demand.needs_watcher()) return {};
  const auto places = unnamed_places_of(job);
  if (!places) return {{"places", Verdict::Fail, places.error().message, ""}};
  Findings all;
  std::vector<std::string> asks;  // fleets that ask for an instance
  bool nobody = false, unknown = false;
  for (const JobPlace& place : *places) {
    const auto fleets = job_fleets(*place.calls, key_of(place.job));
    if (!fleets) {
      unknown = true;
      all.push_back(unanswered("watcher", fleets.error(), "whether one runs"));
      continue;
    }
    for (const JobFleet& it : *fleets)
      if (it.is_at_work() && it.is_own() && it.target > 0) asks.push_back(it.fleet.id.str());
    const auto own = std::ranges::find_if(*fleets, is_watched);
    if (own == fleets->end()) continue;
    const auto mark = launch::mark_of(own->watched);
    const std::string id = own->fleet.id.str();
    if (mark && place.calls->now() - mark->looked < 2 * launch::longest_interval)
      return {
          {"watcher", Verdict::Ok, id + " was watched at " + wire::to_rfc3339(mark->looked), ""}};
    nobody = true;
    all.push_back(
        {"watcher", Verdict::Warn,
         mark ? "nobody has watched " + id + " since " + wire::to_rfc3339(mark->looked)
              : "nobody watches " + id,
         "no on-demand instance will come: `spotter watch job.yaml`, or `--once` from a timer"});
  }
  // A watcher did not go on with a move.
  if (places->size() > 1 && nobody && !unknown && asks.size() > 1)
    all.push_back(
        {"watcher", Verdict::Warn,
         asks[0] + " and " + asks[1] +
             " both ask for an instance: both are paid as long as nobody watches",
         "`spotter watch job.yaml` has one of them rest; `spotter stop job.yaml` ends both"});
  return all;
}

// Before a machine costs money that would not start the trainer.
Findings examine_user(const config::Job& job) {
  if (job.trainer.trusted || !supervise::is_images_administrator(job.trainer.user)) return {};
  return {{"user", Verdict::Fail,
           job.trainer.user + " is the administrator of its image, who becomes root by sudo",
           std::string(supervise::instead_of_an_administrator)}};
}

Findings examine_session(AwsCalls& calls, const config::Job& job) {
  if (!job.trainer.role.empty()) return {};
  const auto policy = config::session_policy(job, wire::partition_of(calls.region().view()).name);
  if (policy) return {};
  return {{"trainer", Verdict::Fail, policy.error().message, "it would have no keys of AWS"}};
}

Findings examine_rights(AwsCalls& calls, const config::Job& job) {
  const char* const check = "role";
  const auto who = calls.ask(wire::GetCallerIdentity{});
  const auto profile =
      calls.ask(wire::GetInstanceProfile{wire::iam_name(job.launch->profile).name, calls.region()});
  if (!who || !profile || profile->role_arn.empty()) return {};  // reported already
  IamScope scope;
  scope.account = who->account;
  scope.region = calls.region();
  scope.role = instances_role_of(job);
  config::Job here = job;
  here.launch->places.clear();  // those elsewhere have calls of their own
  const auto document = filled("agent", iam_values(here, scope));
  if (!document || document->empty()) return {};
  Proof proof;
  const Json parsed = Json::parse(*document);
  for (const Json& statement : parsed.at("Statement")) {
    if (!is_needed(statement, *job.launch)) continue;
    if (const auto asked = prove(calls, profile->role_arn, statement, proof); !asked)
      return {{check, Verdict::Warn,
               "whether " + profile->role +
                   " may do what the job needs is not proven: " + asked.error().message,
               asked.error().forbidden()
                   ? "give who launches what `spotter iam launcher` prints"
                   : "a machine that lacks a right is blocked, and costs meanwhile"}};
  }
  if (proof.missing.empty())
    return {{check, Verdict::Ok,
             profile->role + " may do what the job needs (" + std::to_string(proof.allowed) +
                 " actions)",
             ""}};
  return {{check, Verdict::Fail, profile->role + " may not: " + proof.missing,
           "give it what `spotter iam roles` prints (" + proof.statements +
               "), or `spotter setup` once for all jobs; --skip-checks if a bucket's or a key's "
               "own policy allows it"}};
}

Findings examine_launching(AwsCalls& calls, const LaunchedJob& launched) {
  const config::Job& job = launched.job;
  Findings findings = examine_user(job);
  append(findings, examine_session(calls, job));
  append(findings, examine_quotas(calls, *job.launch));
  append(findings, examine_package(launched));
  findings.push_back(examine_profile(calls, *job.launch));
  append(findings, examine_rights(calls, job));
  const auto image = image_of(calls, *job.launch);
  if (!image) {
    findings.push_back({"image", Verdict::Fail, image.error().message,
                        image.error().forbidden() ? of_the_launcher : "correct launch.image"});
    return findings;
  }
  std::vector<wire::Query> queries{
      wire::query_of(launch::create_template(job, {*image, launched.user_data}))};
  if (volume_is_missing(calls, job))
    queries.push_back(wire::query_of(launch::create_volume(job, "dry-run")));
  if (placement_group_is_missing(calls, job))
    queries.push_back(wire::query_of(launch::create_placement_group(job)));
  append(findings, examine_calls(calls, queries, of_the_launcher));
  return findings;
}

Findings examine_before_launch(AwsCalls& calls, const LaunchedJob& launched) {
  const config::Job& job = launched.job;
  DoctorScope scope = scope_of(job);
  scope.makes_volume = true;  // provide_volumes() also considers copies and snapshots
  Findings all;
  for (Findings some : {examine_storage(calls, job, scope), examine_places(calls, job, scope),
                        examine_file_system(calls, job, scope), examine_launching(calls, launched),
                        examine_buckets(job), examine_code(calls, job, false)})
    append(all, some);
  return all;
}

Findings examine_fleet(AwsCalls& calls, const LaunchedJob& launched,
                       const launch::TemplateVersion& version) {
  const config::Job& job = launched.job;
  const config::Launch& launch = *job.launch;
  const auto& places = launch.subnets.empty() ? launch.zones : launch.subnets;
  const auto instance = launch::run_instance(job, version, launch.instance_types.front(),
                                             places.empty() ? "" : places.front());
  Findings findings = examine_calls(calls, {wire::query_of(instance)}, of_the_launcher);
  // EC2 launches a fleet's instances with its own role: the caller need not be allowed to.
  for (Finding& it : findings)
    if (it.check == "permissions") it.verdict = std::min(it.verdict, Verdict::Warn);
  // Auto Scaling has no DryRun.
  if (launch.type == FleetKind::AutoScalingGroup) return findings;
  const auto fleet = launch::request_fleet(job, {version, "dry-run", launched.digest});
  append(findings, examine_calls(calls, {wire::query_of(fleet)}, of_the_launcher));
  return findings;
}

Findings examine_file_system(AwsCalls& calls, const config::Job& job, const DoctorScope& scope) {
  if (!job.storage.share || job.storage.share->kind != Share::Kind::Efs) return {};
  const Share& share = *job.storage.share;
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
  if (!found) return {unanswered(efs_check, found.error(), open_with_efs)};
  if (found->empty()) return {{efs_check, Verdict::Fail, "EFS shows no " + id, "try again"}};
  const Mounting mounting{job, found->front(),
                          job.launch || !scope.zones.empty() || !scope.subnets.empty()};
  if (auto findings = judge_state(mounting.file_system); !findings.empty()) return findings;
  const auto targets = calls.ask_all(wire::DescribeMountTargets{id});
  if (!targets) return {unanswered(efs_check, targets.error(), open_with_efs)};
  if (const auto zone = config::mount_option(share, "az"))
    return judge_zones(mounting, {{*zone, ""}}, *targets);
  auto places = places_of(calls, scope);
  Findings findings;
  if (!mounting.file_system.zone.empty()) findings = keep_to_one_zone(mounting, places);
  append(findings, judge_zones(mounting, places, *targets));
  return findings;
}

Findings examine_archive(const CodeArchive& archive, const std::string& folder) {
  Findings findings{{"code", Verdict::Ok, describe(archive, folder), ""}};
  for (const std::string& it : archive.doubts) findings.push_back({"code", Verdict::Warn, it, ""});
  return findings;
}

// A job without `code:` finds its program in the storage, or in the image. A file of the command
// that lies here, too, was more likely meant to go along.
Findings examine_unsent(const config::Job& job) {
  if (job.code || !job.launch) return {};
  std::istringstream words(job.trainer.command);
  std::error_code none;
  for (std::string word; words >> word;)
    if (!word.starts_with('/') && fs::is_regular_file(word, none))
      return {{"code", Verdict::Warn,
               word + " is here, and job.yaml sends no code: machines look for it in the storage",
               "to send this folder along: `code: {folder: .}`"}};
  return {};
}

Findings examine_code(AwsCalls& calls, const config::Job& job, bool on_instance) {
  if (!job.code) return on_instance ? Findings() : examine_unsent(job);
  const config::Code& code = *job.code;
  if (!code.folder.empty() && !on_instance) {
    if (!code.repository.empty()) return {};  // a launch has packed it
    const auto archive = archive_of(code.folder);
    if (!archive) return {{"code", Verdict::Fail, archive.error().message, ""}};
    return examine_archive(*archive, code.folder);
  }
  return examine_repository(calls, code, on_instance);
}

// A value of trainer.env is in the repository, in the instances' user data, in the launch template
// and in the process list; a secret's reference is in their place.
Findings examine_variables(const config::Job& job) {
  Findings findings;
  const auto look = [&](const std::string& key, const std::map<std::string, std::string>& all) {
    for (const auto& [name, value] : all) {
      if (value.empty() || !seems_secret(name)) continue;
      findings.push_back({"secrets", Verdict::Warn,
                          key + "." + name +
                              " seems to be a secret, and whoever may read job.yaml "
                              "or the instances' user data reads it",
                          "put it into Secrets Manager or SSM, and its reference into "
                          "trainer.secrets"});
    }
  };
  look("trainer.env", job.trainer.env);
  if (job.sweep && job.sweep->batch)
    look("sweep.batch.environment", job.sweep->batch->definition.environment);
  return findings;
}

}  // namespace spotter::command
