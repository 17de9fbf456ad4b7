// Features that only Auto Scaling groups have, not fleets: bounds, a way out of the group that
// lifecycle hooks hold up, and processes that can be suspended.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/lifecycle-hooks.html
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-lifecycle.html
#pragma once

#include "tests/world/cloud.hpp"

namespace spotter::world {

struct LifecycleCompletion {
  FleetId group;
  std::string hook;
  InstanceId instance;
  bool abandon = false;
};

class Groups {
 public:
  explicit Groups(Cloud& cloud) : cloud_(cloud) {}

  // ValidationError when there is none.
  Expected<FleetRequest> find(const FleetId& name) const;
  // `group`: with its name, bounds and options.
  Expected<void> create(FleetRequest group);
  // Takes from `group` what an update may change: bounds, target, options.
  Expected<void> update(const FleetRequest& group);
  Expected<void> set_desired(const FleetId& name, int capacity);
  // The instance leaves by way of the hooks; when `decrement`, nobody comes in its place.
  Expected<void> terminate(const InstanceId& id, bool decrement);
  Expected<void> complete(const LifecycleCompletion& it);
  Expected<void> put_hook(const FleetId& name, const std::string& hook, const LifecycleHook& data);
  Expected<void> suspend(const FleetId& name, const std::vector<std::string>& processes, bool on);

  // Terminating:Wait as long as a hook holds it, then it is shut down. Nothing, the second time.
  void take_out(const InstanceId& id);
  void on(const HookTimesOut& happening);

 private:
  void release(const InstanceId& id);

  Cloud& cloud_;
};

// InService, Terminating:Wait, ... https://docs.aws.amazon.com/autoscaling/ec2/APIReference/
// API_Instance.html
std::string lifecycle_state(const Instance& instance);

}  // namespace spotter::world
