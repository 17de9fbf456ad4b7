// Would AWS launch what `launch:` requests? EC2 itself reports that late or never: a fleet that
// cannot start any instance exists, and waits.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/services.hpp"
#include "agent/commands/doctor.hpp"
#include "agent/commands/fleets.hpp"
#include "agent/commands/job_storage.hpp"
#include "agent/commands/machines.hpp"
#include "agent/launch/fallback.hpp"
#include "agent/supervise/account.hpp"

namespace spotter::command {
namespace {

using Verdict = Finding::Verdict;

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
    const auto value = calls.ec2_quota(std::string(code));
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

}  // namespace

DoctorScope scope_of(const config::Job& job) {
  if (!job.launch) return {};
  const config::Launch& launch = *job.launch;
  return {launch.instance_types, launch.zones, launch.subnets,
          static_cast<std::uint32_t>(launch.capacity), launch.volume.has_value()};
}

Findings examine_quotas(AwsCalls& calls, const config::Launch& launch) {
  using When = config::OnDemand::When;
  const auto sizes = calls.ask_all(wire::DescribeInstanceTypes{launch.instance_types, {}});
  if (!sizes)
    return {{"quota", Verdict::Warn, sizes.error().message, "whether the quotas suffice is open"}};
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

namespace {

// It asks for spot capacity, or a watcher has it rest.
bool is_watched(const JobFleet& it) {
  const auto mark = launch::mark_of(it.watched);
  const bool rests = mark && mark->spot == launch::WatchMark::Spot::Rests;
  return it.is_at_work() && it.is_own() && (it.target > 0 || rests);
}

}  // namespace

WatchSeen examine_watcher(AwsCalls& calls, const config::Job& job) {
  using State = WatchSeen::State;
  if (!job.launch || !job.launch->on_demand.needs_watcher()) return {};
  const auto fleets = job_fleets(calls, key_of(job));
  if (!fleets)
    return {State::Unknown,
            {{"watcher", Verdict::Warn, fleets.error().message, "whether one runs is open"}},
            {}};
  WatchSeen seen;
  const auto now = calls.now();
  for (const JobFleet& it : *fleets)
    if (it.is_at_work() && it.is_own() && it.target > 0) seen.asks.push_back(it.fleet.id.str());
  const auto own = std::ranges::find_if(*fleets, is_watched);
  if (own == fleets->end()) return seen;
  const auto mark = launch::mark_of(own->watched);
  const std::string id = own->fleet.id.str();
  if (mark && now - mark->looked < 2 * launch::longest_interval) {
    seen.state = State::Watched;
    seen.findings = {
        {"watcher", Verdict::Ok, id + " was watched at " + wire::to_rfc3339(mark->looked), ""}};
    return seen;
  }
  seen.state = State::Nobody;
  seen.findings = {
      {"watcher", Verdict::Warn,
       mark ? "nobody has watched " + id + " since " + wire::to_rfc3339(mark->looked)
            : "nobody watches " + id,
       "no on-demand instance will come: `spotter watch job.yaml`, or `--once` from a timer"}};
  return seen;
}

Findings examine_second(const std::vector<WatchSeen>& seen) {
  std::vector<std::string> asks;
  for (const WatchSeen& it : seen) {
    if (it.state == WatchSeen::State::Unknown) return {};
    asks.insert(asks.end(), it.asks.begin(), it.asks.end());
  }
  const bool nobody =
      std::ranges::find(seen, WatchSeen::State::Nobody, &WatchSeen::state) != seen.end();
  if (!nobody || asks.size() < 2) return {};
  return {{"watcher", Verdict::Warn,
           asks[0] + " and " + asks[1] +
               " both ask for an instance: both are paid as long as nobody watches",
           "`spotter watch job.yaml` has one of them rest; `spotter stop job.yaml` ends both"}};
}

// Before a machine costs money that would not start the trainer.
Findings examine_user(const config::Job& job) {
  if (job.trainer.trusted || !supervise::is_images_administrator(job.trainer.user)) return {};
  return {{"user", Verdict::Fail,
           job.trainer.user + " is the administrator of its image, who becomes root by sudo",
           std::string(supervise::instead_of_an_administrator)}};
}

Findings examine_launching(AwsCalls& calls, const LaunchedJob& launched) {
  const config::Job& job = launched.job;
  Findings findings = examine_user(job);
  std::ranges::move(examine_quotas(calls, *job.launch), std::back_inserter(findings));
  std::ranges::move(examine_package(launched), std::back_inserter(findings));
  findings.push_back(examine_profile(calls, *job.launch));
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
  auto more = examine_calls(calls, queries, of_the_launcher);
  std::ranges::move(more, std::back_inserter(findings));
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
    std::ranges::move(some, std::back_inserter(all));
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
  auto more = examine_calls(calls, {wire::query_of(fleet)}, of_the_launcher);
  std::ranges::move(more, std::back_inserter(findings));
  return findings;
}

}  // namespace spotter::command
