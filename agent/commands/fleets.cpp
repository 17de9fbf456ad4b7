#include "agent/commands/fleets.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <thread>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/fleet_history.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/launch/requests.hpp"

namespace spotter::command {
namespace {

using Clock = std::chrono::steady_clock;
using wire::FleetState;
using wire::InstanceState;

constexpr int tries = 5;  // of a cancellation; AWS's failures usually pass within seconds
constexpr std::chrono::seconds between_tries{2};
// An instance that shuts down may take minutes for its last checkpoint.
constexpr std::chrono::minutes patience{15};
constexpr std::chrono::seconds between_looks{2};

void say(const std::string& what) { std::fprintf(stderr, "spotter: %s\n", what.c_str()); }

bool is_namesakes(const wire::Tags& tags, const JobKey& job) {
  const std::string storage = wire::value_of(tags, tag::storage);
  return !storage.empty() && !job.storage.empty() && storage != job.storage;
}

void add(std::vector<JobFleet>& to, FleetKind kind, const std::vector<wire::FleetStatus>& all,
         const JobKey& job) {
  for (const wire::FleetStatus& it : all) {
    const std::string whose = wire::value_of(it.tags, tag::job);
    if (whose.empty() || (!job.name.empty() && whose != job.name)) continue;
    if (is_namesakes(it.tags, job)) continue;
    const auto first = wire::parse_rfc3339(wire::value_of(it.tags, tag::first_launch));
    to.push_back({{kind, it.id},
                  whose,
                  wire::value_of(it.tags, tag::storage),
                  it.state,
                  it.target_capacity,
                  wire::value_of(it.tags, tag::request),
                  it.create_time,
                  wire::value_of(it.tags, tag::role),
                  wire::value_of(it.tags, tag::watched),
                  wire::value_of(it.tags, tag::rests),
                  it.launch_template,
                  first ? std::optional(*first) : std::nullopt,
                  wire::value_of(it.tags, tag::regions),
                  it.valid_until,
                  it.type == "instant"});
  }
}

// EC2 shows a fleet of type instant only to who names it: those that have a machine in a capacity
// reservation. Without one such a fleet is over.
Result<void, CallError> add_instant(AwsCalls& calls, const JobKey& job, std::vector<JobFleet>& to) {
  const auto instances = TRY(job_instances(calls, job));
  std::set<FleetId> named;
  for (const wire::Instance& it : instances) {
    const std::string id = wire::value_of(it.tags, "aws:ec2:fleet-id");
    const bool reserved = !it.reservation.empty() && !it.lifecycle.empty();
    if (reserved && !id.empty() && FleetId::fits(id)) named.insert(FleetId(id));
  }
  for (const FleetId& id : named) {  // one by one: of several one that is not seen yet hides all
    const auto fleets = calls.ask_all(wire::DescribeFleets{{id}});
    if (!fleets && fleets.error().kind != CallError::Kind::NotFound)
      return tl::unexpected(fleets.error());
    if (fleets) add(to, FleetKind::Ec2Fleet, *fleets, job);
  }
  return {};
}

// The fleets that AWS refused to end, and why.
Result<std::vector<wire::FleetFailure>, CallError> try_to_end(AwsCalls& calls, FleetKind kind,
                                                              const std::vector<FleetId>& ids,
                                                              bool end_instances) {
  const auto answer = kind == FleetKind::SpotFleet
                          ? calls.ask(wire::CancelSpotFleetRequests{ids, end_instances})
                          : calls.ask(wire::DeleteFleets{ids, end_instances});
  if (!answer && !answer.error().unsettled()) return tl::unexpected(answer.error());
  std::vector<wire::FleetFailure> refused;
  if (!answer) {  // the next try shows whether it was done
    for (const FleetId& id : ids) refused.push_back({id, "", answer.error().message});
    return refused;
  }
  for (const wire::FleetFailure& failed : *answer)
    if (!wire::is_ended_already(failed)) refused.push_back(failed);
  return refused;
}

// Each by a call of its own.
Result<std::vector<wire::FleetFailure>, CallError> try_to_end_groups(
    AwsCalls& calls, const std::vector<FleetId>& ids, bool end_instances) {
  std::vector<wire::FleetFailure> refused;
  for (const FleetId& id : ids) {
    const auto command = end_instances ? launch::set_capacity({FleetKind::AutoScalingGroup, id}, {})
                                       : launch::let_launch(id, false);
    const auto answer = calls.perform(command);
    if (answer) continue;
    const CallError& why = answer.error();
    const bool gone =
        why.code == "ValidationError" && why.message.find("not found") != why.message.npos;
    if (why.forbidden()) return tl::unexpected(why);
    if (!gone) refused.push_back({id, why.code, why.message});
  }
  return refused;
}

Result<void, CallError> end_kind(AwsCalls& calls, FleetKind kind, std::vector<FleetId> ids,
                                 bool end_instances) {
  for (int number = 1; !ids.empty(); ++number) {
    const auto refused =
        TRY(kind == FleetKind::AutoScalingGroup ? try_to_end_groups(calls, ids, end_instances)
                                                : try_to_end(calls, kind, ids, end_instances));
    ids.clear();
    for (const auto& it : refused) {
      ids.push_back(it.id);
      const std::string why = (it.code.empty() ? "" : it.code + ": ") + it.message;
      say(it.id.str() + " could not be ended: " + why +
          (number < tries ? "; it is tried again" : ""));
      if (number == tries)
        return tl::unexpected(CallError{
            .code = it.code,
            .message = it.id.str() + " goes on and costs money: try again, or end it at AWS"});
    }
    if (!ids.empty()) std::this_thread::sleep_for(between_tries);
  }
  return {};
}

}  // namespace

JobKey key_of(const config::Job& job) { return {job.name.str(), config::storage_name(job)}; }

std::string launch_failure(AwsCalls& calls, const JobFleet& fleet) {
  constexpr std::chrono::hours since{1};
  const auto now = calls.now();
  const auto page = [&](const std::string& token) {
    const auto query = wire::describe_history(fleet.fleet, now - since, token);
    return calls.ask(query, wire::decode_history, fleet.fleet.kind);
  };
  const auto failures =
      calls.all_pages<wire::LaunchFailure>("the history of " + fleet.fleet.id.str(), page);
  if (!failures) return {};
  const auto newest = std::ranges::max_element(*failures, {}, &wire::LaunchFailure::at);
  if (newest == failures->end() || newest->at < now - since) return {};
  return newest->why + " (" + wire::to_rfc3339(newest->at) + ")";
}

bool JobFleet::is_own() const {
  return role != launch::role_of_preparers && role != tag::role_on_demand;
}

bool JobFleet::is_at_work() const {
  return state == FleetState::Submitted || state == FleetState::Active ||
         state == FleetState::Modifying;
}

bool JobFleet::is_over() const {
  return state == FleetState::Cancelled || state == FleetState::Failed;
}

bool JobFleet::is_suspended() const {
  return fleet.kind == FleetKind::AutoScalingGroup && state == FleetState::CancelledRunning;
}

Result<std::vector<JobFleet>, CallError> job_fleets(AwsCalls& calls, const JobKey& job) {
  std::vector<JobFleet> found;
  const auto fleets = TRY(calls.ask_all(wire::DescribeFleets{}));
  add(found, FleetKind::Ec2Fleet, fleets, job);
  TRY(add_instant(calls, job, found));
  const auto requests = TRY(calls.ask_all(wire::DescribeSpotFleetRequests{}));
  add(found, FleetKind::SpotFleet, requests, job);
  const auto groups = calls.ask_all(wire::DescribeAutoScalingGroups{});
  // The launcher's policy may be older than groups: still ends what it made.
  if (!groups && !groups.error().forbidden()) return tl::unexpected(groups.error());
  if (!groups) say("Auto Scaling groups are left out: " + groups.error().message);
  if (groups) add(found, FleetKind::AutoScalingGroup, *groups, job);
  std::ranges::stable_sort(
      found, {}, [](const JobFleet& it) { return std::pair(it.created, it.fleet.id.view()); });
  return found;
}

Result<std::vector<wire::Instance>, CallError> job_instances(AwsCalls& calls, const JobKey& job) {
  auto all = all_job_instances(calls, job);
  if (all)
    std::erase_if(*all, [](const auto& it) { return it.state == InstanceState::Terminated; });
  return all;
}

Result<std::vector<wire::Instance>, CallError> all_job_instances(AwsCalls& calls,
                                                                 const JobKey& job) {
  wire::DescribeInstances request;
  if (job.name.empty())
    request.filters = {{"tag-key", {tag::job}}};
  else
    request.filters = {wire::tagged(tag::job, job.name)};
  auto all = calls.ask_all(request);
  if (all) std::erase_if(*all, [&](const auto& it) { return is_namesakes(it.tags, job); });
  return all;
}

Result<std::vector<InstanceId>, CallError> preparing(AwsCalls& calls, const JobKey& job) {
  const auto all = TRY(job_instances(calls, job));
  std::vector<InstanceId> ids;
  for (const wire::Instance& it : all)
    if (wire::value_of(it.tags, tag::role) == launch::role_of_preparers) ids.push_back(it.id);
  return ids;
}

std::string two_jobs(const std::string& name, const std::string& ours, const std::string& theirs,
                     const std::string& what) {
  return "two jobs are called " + name + ": one on " + ours + ", and one on " + theirs +
         ", to which " + what + " belongs; give one of them another name";
}

Result<std::string, CallError> refuse_namesakes(AwsCalls& calls, const JobKey& job) {
  const auto fleets = TRY(job_fleets(calls, {job.name, {}}));
  const auto instances = TRY(job_instances(calls, {job.name, {}}));
  std::vector<std::pair<std::string, std::string>> there;  // storage, id
  for (const JobFleet& it : fleets)
    if (!it.is_over()) there.emplace_back(it.storage, it.fleet.id.str());
  for (const wire::Instance& it : instances)
    there.emplace_back(wire::value_of(it.tags, tag::storage), it.id.str());
  std::string ours = job.storage;
  for (const auto& [storage, id] : there) {
    if (storage.empty() || storage == ours) continue;
    if (ours.empty()) {
      ours = storage;
      continue;
    }
    return failed(two_jobs(job.name, ours, storage, id) +
                  ", or end that one first, by `spotter stop` with its own job.yaml");
  }
  return ours;
}

Result<void, CallError> end_fleets(AwsCalls& calls, const std::vector<JobFleet>& fleets,
                                   bool end_instances) {
  Result<void, CallError> result;
  for (const FleetKind kind :
       {FleetKind::Ec2Fleet, FleetKind::SpotFleet, FleetKind::AutoScalingGroup}) {
    std::vector<FleetId> ids;
    for (const JobFleet& it : fleets)
      if (it.fleet.kind == kind) ids.push_back(it.fleet.id);
    if (auto ended = end_kind(calls, kind, ids, end_instances); !ended) result = ended;
  }
  return result;
}

Result<void, CallError> wait_for_instances_to_end(AwsCalls& calls, const JobKey& job) {
  const auto until = Clock::now() + patience;
  std::size_t reported = 0;
  while (true) {
    const auto left = TRY(job_instances(calls, job));
    if (left.empty()) return {};
    std::string names;
    for (const auto& it : left)
      names +=
          (names.empty() ? "" : ", ") + it.id.str() + " (" + std::string(to_text(it.state)) + ")";
    if (Clock::now() > until) return failed("still there: " + names);
    if (left.size() != reported) say("waits for the end of " + names);
    reported = left.size();
    std::this_thread::sleep_for(between_looks);
  }
}

std::string_view to_text(FleetKind kind) {
  if (kind == FleetKind::SpotFleet) return "spot-fleet";
  return kind == FleetKind::Ec2Fleet ? "fleet" : "auto-scaling-group";
}

std::string_view to_text(FleetState state) {
  constexpr std::string_view names[] = {"submitted",
                                        "active",
                                        "modifying",
                                        "failed",
                                        "cancelled, its instances run on",
                                        "cancelled, its instances end",
                                        "cancelled",
                                        "unknown"};
  return names[static_cast<std::size_t>(state)];
}

std::string_view to_text(InstanceState state) {
  constexpr std::string_view names[] = {"pending",  "running", "shutting-down", "terminated",
                                        "stopping", "stopped", "unknown"};
  return names[static_cast<std::size_t>(state)];
}

std::optional<wire::WallTime> first_launch_of(const std::vector<JobFleet>& fleets) {
  std::optional<wire::WallTime> first;
  for (const JobFleet& it : fleets)
    for (const auto& time : {it.created, it.first_launch})
      if (it.is_own() && time) first = std::min(first.value_or(*time), *time);
  return first;
}

std::optional<wire::WallTime> due_of(const config::Deadline& deadline,
                                     const std::vector<JobFleet>& fleets) {
  if (!deadline.within) return deadline.finish_by;
  const auto first = first_launch_of(fleets);
  if (!first) return std::nullopt;
  return *first + std::chrono::ceil<std::chrono::seconds>(*deadline.within);
}

}  // namespace spotter::command
