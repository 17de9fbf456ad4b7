#include "tests/world/groups.hpp"

#include <algorithm>

#include "tests/world/fleets.hpp"
#include "tests/world/instances.hpp"

namespace spotter::world {
namespace {

constexpr const char* terminating = "autoscaling:EC2_INSTANCE_TERMINATING";
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
constexpr const char* processes_known[] = {
    "Launch",      "Terminate",       "AddToLoadBalancer", "AlarmNotification", "AZRebalance",
    "HealthCheck", "InstanceRefresh", "ReplaceUnhealthy",  "ScheduledActions"};

tl::unexpected<ApiError> invalid(const std::string& message) {
  return refusal("ValidationError", message);
}

Expected<void> check_bounds(const FleetRequest& group) {
  const GroupPart& part = *group.group;
  if (part.least > part.most) return invalid("Max bound must be greater than or equal to min");
  const std::string name = group.fleet.id.str();
  if (group.target < part.least)
    return invalid("Desired capacity:" + std::to_string(group.target) +
                   " must be between the specified min size:" + std::to_string(part.least) +
                   " and max size:" + std::to_string(part.most));
  if (group.target > part.most)
    return invalid("Desired capacity:" + std::to_string(group.target) +
                   " must be between the specified min size:" + std::to_string(part.least) +
                   " and max size:" + std::to_string(part.most));
  return {};
}

// Auto Scaling tries the template at once, and refuses what EC2 would not launch by it.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-launch-template.html
Expected<void> check_template(const Cloud& cloud, const FleetRequest& group) {
  for (const LaunchOption& option : group.options)
    if (const auto refused = refuse_launch(cloud, option))
      return invalid("You must use a valid fully-formed launch template. " + refused->message);
  return {};
}

// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_InstancesDistribution.html
void share_out(FleetRequest& group) {
  const GroupPart& part = *group.group;
  const int base = std::min(part.on_demand_base, group.target);
  group.on_demand_target = base + ((group.target - base) * part.on_demand_percentage + 99) / 100;
}

}  // namespace

std::string lifecycle_state(const Instance& instance) {
  if (instance.state == InstanceState::Terminated) return "Terminated";
  if (!is_alive(instance)) return "Terminating";
  if (instance.departure)
    return instance.departure->hooks.empty() ? "Terminating:Proceed" : "Terminating:Wait";
  return instance.state == InstanceState::Pending ? "Pending" : "InService";
}

Expected<FleetRequest> Groups::find(const FleetId& name) const {
  const FleetRequest* found = cloud_.fleets.find(name);
  if (found && found->group) return *found;
  return invalid("AutoScalingGroup name not found - AutoScalingGroup " + name.str() + " not found");
}

Expected<void> Groups::create(FleetRequest group) {
  if (cloud_.fleets.find(group.fleet.id)) {
    return refusal("AlreadyExists",
                   "AutoScalingGroup by this name already exists - A group with the name " +
                       group.fleet.id.str() + " already exists");
  }
  if (auto fits = check_bounds(group); !fits) return fits;
  if (auto fits = check_template(cloud_, group); !fits) return fits;
  share_out(group);
  const auto made = Fleets(cloud_).create(std::move(group));
  return made ? Expected<void>() : tl::unexpected(made.error());
}

Expected<void> Groups::update(const FleetRequest& group) {
  if (auto there = find(group.fleet.id); !there) return tl::unexpected(there.error());
  if (auto fits = check_bounds(group); !fits) return fits;
  if (auto fits = check_template(cloud_, group); !fits) return fits;
  FleetRequest& it = Fleets(cloud_).change(group.fleet.id);
  it.group = group.group;
  it.target = group.target;
  it.allocation = group.allocation;
  it.on_demand_allocation = group.on_demand_allocation;
  it.rebalancing = group.rebalancing;
  it.options = group.options;
  it.sent = group.sent;
  share_out(it);
  cloud_.record("fleet-modified", it.fleet.id.str(), std::to_string(it.target));
  Fleets(cloud_).look_soon(it.fleet.id);
  return {};
}

Expected<void> Groups::set_desired(const FleetId& name, int capacity) {
  auto group = find(name);
  if (!group) return tl::unexpected(group.error());
  const GroupPart& part = *group->group;
  if (capacity < part.least)
    return invalid("New SetDesiredCapacity value " + std::to_string(capacity) +
                   " is below min value " + std::to_string(part.least) +
                   " for the AutoScalingGroup.");
  if (capacity > part.most)
    return invalid("New SetDesiredCapacity value " + std::to_string(capacity) +
                   " is above max value " + std::to_string(part.most) +
                   " for the AutoScalingGroup.");
  group->target = capacity;
  return update(*group);
}

Expected<void> Groups::terminate(const InstanceId& id, bool decrement) {
  const Instance* found = cloud_.instances.find(id);
  if (!found || found->fleet.kind != FleetKind::AutoScalingGroup || !is_alive(*found))
    return invalid("Instance Id not found - No managed instance found for instance ID: " +
                   id.str());
  const FleetId group = found->fleet.id;
  if (decrement && !found->departure) {
    const auto lower = set_desired(group, std::max(0, find(group)->target - 1));
    if (!lower) return lower;
  }
  take_out(id);
  Fleets(cloud_).look_soon(group);
  return {};
}

Expected<void> Groups::complete(const LifecycleCompletion& it) {
  Instance* instance = cloud_.instances.find(it.instance);
  const bool held = instance && instance->fleet.id == it.group && instance->departure &&
                    is_alive(*instance) && instance->departure->hooks.count(it.hook) != 0;
  if (!held)
    return invalid("No active Lifecycle Action found with instance ID " + it.instance.str());
  cloud_.record("lifecycle-completed", it.instance.str(), it.hook);
  instance->departure->hooks.erase(it.hook);
  if (it.abandon) instance->departure->hooks.clear();  // "terminates ... immediately"
  release(it.instance);
  return {};
}

Expected<void> Groups::put_hook(const FleetId& name, const std::string& hook,
                                const LifecycleHook& data) {
  if (auto there = find(name); !there) return tl::unexpected(there.error());
  Fleets(cloud_).change(name).group->hooks[hook] = data;
  return {};
}

Expected<void> Groups::suspend(const FleetId& name, const std::vector<std::string>& processes,
                               bool on) {
  if (auto there = find(name); !there) return tl::unexpected(there.error());
  std::set<std::string>& suspended = Fleets(cloud_).change(name).group->suspended;
  for (const char* process : processes_known) {  // none named: all
    const bool meant =
        processes.empty() || std::ranges::find(processes, process) != processes.end();
    if (meant && on) suspended.insert(process);
    if (meant && !on) suspended.erase(process);
  }
  Fleets(cloud_).look_soon(name);
  return {};
}

void Groups::take_out(const InstanceId& id) {
  Instance* instance = cloud_.instances.find(id);
  if (!is_alive(*instance) || instance->departure) return;
  Departure& departure = instance->departure.emplace();
  departure.number = cloud_.number();
  for (const auto& [name, hook] : cloud_.fleets.find(instance->fleet.id)->group->hooks) {
    if (hook.transition != terminating) continue;
    departure.hooks.insert(name);
    cloud_.schedule(hook.timeout, HookTimesOut{id, departure.number, name});
  }
  cloud_.record("instance-taken-out", id.str(), instance->fleet.id.str());
  release(id);
}

// When nothing holds it any more.
void Groups::release(const InstanceId& id) {
  if (!cloud_.instances.find(id)->departure->hooks.empty()) return;
  Instances(cloud_).shut_down(id, "Client.UserInitiatedShutdown: User initiated shutdown");
}

void Groups::on(const HookTimesOut& happening) {
  Instance* instance = cloud_.instances.find(happening.id);
  if (!is_alive(*instance) || instance->departure->number != happening.departure) return;
  if (instance->departure->hooks.erase(happening.hook) == 0) return;
  cloud_.record("lifecycle-timed-out", happening.id.str(), happening.hook);
  release(happening.id);
}

}  // namespace spotter::world
