// Instances and what ends them.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
#pragma once

#include "tests/world/cloud.hpp"

namespace spotter::world {

struct LaunchInstance {
  LaunchOption option;
  Fleet fleet;
  bool spot = true;
  bool process = true;
  InterruptionAction when_interrupted = InterruptionAction::Terminate;
  std::string client_token;
  std::string spot_request = {};  // the request's id where it was there before
  std::string reservation = {};   // of those that the same call launched before
  int launch_index = 0;
  FleetId by = {};  // of a group with several types: the fleet of type instant that launched it
};

class Instances {
 public:
  explicit Instances(Cloud& cloud) : cloud_(cloud) {}

  bool shows_tags(const LaunchOption& option) const;  // in the metadata service
  // InsufficientInstanceCapacity when the zone has none.
  Expected<Instance> launch(const LaunchInstance& request);
  Expected<Instance> terminate(const InstanceId& id, const std::string& reason);
  // The same by AWS itself, which knows also what Describe does not show yet.
  Instance shut_down(const InstanceId& id, const std::string& reason);
  bool restart(const InstanceId& stopped);  // false: its zone has no capacity
  // StopInstances; refuses what StopInstances cannot stop.
  Expected<void> stop(const InstanceId& id);

  // Refuses an instance on demand: only spot instances get a notice or a recommendation.
  Expected<void> interrupt(const InstanceId& id, InterruptionAction action, Duration lead);
  // A notice alone, with the action that its request asked for. REQUIRES: a living spot instance.
  void give_notice(const InstanceId& id, Duration lead);
  Expected<void> rebalance(const InstanceId& id);
  Expected<void> withdraw(const InstanceId& id);
  Expected<void> kill(const InstanceId& id, const std::string& reason);

  // It has shut itself down, or somebody has killed what it boots.
  Expected<void> halted(const InstanceId& id);

  bool has_capacity(const LaunchOption& option, bool spot) const;  // of its type, zone and price
  const Instance* seen(const InstanceId& id) const;
  std::vector<Instance> list() const;  // those that DescribeInstances would show

  void on(const InstanceRuns& happening);
  void on(const ShutDownEnds& happening);
  void on(const FleetTagged& happening);
  void on(const InterruptionDue& happening);
  void on(const ReplacedEnds& happening);
  void on(const ReservedEnds& happening);  // its reservation's end takes it

 private:
  bool has_room(const Zone& zone, bool spot) const;
  void notify(const InstanceId& id, InterruptionAction action, Duration lead);
  Expected<Instance*> reach(const InstanceId& id);
  Instance& change(const InstanceId& id);
  const Range& ends_within(const Instance& instance) const;  // from shutting-down on
  void tag_of_fleet(Instance& instance, const std::string& key, const FleetId& fleet);
  void end(const InstanceId& id, InstanceState state, const std::string& reason);

  Cloud& cloud_;
};

// EC2's refusal of a launch that no capacity would help: a tag that the metadata cannot show, an
// instance profile that is not there, an image of another architecture than the type, a placement
// group that is not there, or has instances in another zone, or cannot have this type; network
// interfaces that the type cannot have, or of security groups that are not there; a capacity
// reservation that is of another kind, type or zone, over, or full.
std::optional<ApiError> refuse_launch(const Cloud& cloud, const LaunchOption& option);
std::optional<ApiError> refuse_placement(const Cloud& cloud, const LaunchOption& option);
std::optional<ApiError> refuse_interfaces(const Cloud& cloud, const LaunchOption& option);
std::vector<std::string> groups_of(const TemplateVersion& version);  // and of its interfaces
Tags tags_of_placement_group(const Cloud& cloud, const std::string& name);
inline constexpr const char* halted_reason =
    "Client.InstanceInitiatedShutdown: Instance initiated shutdown";
inline constexpr const char* user_reason = "Client.UserInitiatedShutdown: User initiated shutdown";
bool is_alive(const Instance& instance);  // pending or running
bool is_spot(const Instance& instance);   // else on demand
// The instance's fleet as its tags show it: kind None until AWS has written them.
Fleet fleet_shown(const Instance& instance);
std::string_view name(InstanceState state);
int code(InstanceState state);

}  // namespace spotter::world
