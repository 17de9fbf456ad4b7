#include "tests/world/instances.hpp"

#include <algorithm>

#include "tests/world/ec2_parameters.hpp"
#include "tests/world/fleets.hpp"
#include "tests/world/groups.hpp"
#include "tests/world/iam.hpp"
#include "tests/world/offers.hpp"
#include "tests/world/pools.hpp"
#include "tests/world/reservations.hpp"
#include "tests/world/volumes.hpp"

namespace spotter::world {

namespace {

// A tag's key that the metadata service cannot have as a path.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-tags.html#tag-restrictions
std::optional<std::string> unreadable_tag(const LaunchOption& option) {
  constexpr std::string_view allowed =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_+=,.@:";
  for (const auto& [key, value] : option.instance_tags)
    if (key == "." || key == ".." || key == "_index" ||
        key.find_first_not_of(allowed) != std::string::npos)
      return key;
  return std::nullopt;
}

tl::unexpected<ApiError> not_spot(const InstanceId& id) {
  return refusal("IncorrectInstanceState", "'" + id.str() + "' is no spot instance.");
}

}  // namespace

// Reasons: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
constexpr const char* interrupted_reason =
    "Server.SpotInstanceTermination: Spot instance termination";
constexpr const char* stopped_reason = "Server.SpotInstanceShutdown: Spot instance shutdown";

bool is_alive(const Instance& instance) {
  return instance.state == InstanceState::Pending || instance.state == InstanceState::Running;
}

bool is_spot(const Instance& instance) { return !instance.spot_request.empty(); }

std::string_view name(InstanceState state) {
  constexpr std::string_view names[] = {"pending",    "running",  "shutting-down",
                                        "terminated", "stopping", "stopped"};
  return names[static_cast<std::size_t>(state)];
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceState.html
int code(InstanceState state) { return static_cast<int>(state) * 16; }

namespace {

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/tag-spot-fleet.html: AWS's own tags
const char* tag_of(FleetKind kind) {
  if (kind == FleetKind::SpotFleet) return "aws:ec2spot:fleet-request-id";
  return kind == FleetKind::Ec2Fleet ? "aws:ec2:fleet-id" : "aws:autoscaling:groupName";
}

}  // namespace

Fleet fleet_shown(const Instance& instance) {
  for (const FleetKind kind :
       {FleetKind::SpotFleet, FleetKind::AutoScalingGroup, FleetKind::Ec2Fleet}) {
    const auto found = instance.tags.find(tag_of(kind));
    if (found != instance.tags.end()) return {kind, FleetId(found->second)};
  }
  return {};
}

// Each tag in its own time: they come from the fleet, after the instance is there.
void Instances::tag_of_fleet(Instance& instance, const std::string& key, const FleetId& fleet) {
  const Range& late = cloud_.settings.fleet_tags;
  if (late.most == Duration{0}) {
    instance.tags[key] = fleet.str();
  } else {
    cloud_.schedule(cloud_.random.within(late), FleetTagged{instance.id, key, fleet.str()});
  }
}

Instance& Instances::change(const InstanceId& id) {
  return cloud_.instances.change(id, cloud_.now, cloud_.lag());
}

const Range& Instances::ends_within(const Instance& instance) const {
  const bool of_block = instance.reserved.market == block_market;
  return of_block ? cloud_.settings.block_cleanup : cloud_.settings.shut_down;
}

Expected<Instance*> Instances::reach(const InstanceId& id) {
  Instance* instance = cloud_.instances.find(id);
  if (!instance || !cloud_.instances.seen(id, cloud_.now)) {
    return refusal("InvalidInstanceID.NotFound",
                   "The instance ID '" + id.str() + "' does not exist");
  }
  return instance;
}

bool Instances::has_capacity(const LaunchOption& option, bool spot) const {
  if (option.reserved) return !spot;  // refuse_reserved() counts
  if (!has_room(option.zone, spot)) return false;
  return !spot || Pools(cloud_).has_room(option.type, option.zone, option.max_price);
}

bool Instances::has_room(const Zone& zone, bool spot) const {
  const auto found = cloud_.capacity.find(zone);
  if (found == cloud_.capacity.end()) return false;
  if (spot && cloud_.now < found->second.empty_until) return false;
  const std::optional<int>& limit = spot ? found->second.limit : found->second.on_demand;
  if (!limit) return true;
  int running = 0;
  cloud_.instances.each([&](const Instance& other) {
    running += other.zone == zone && is_alive(other) && is_spot(other) == spot && !other.reserved;
  });
  return running < *limit;
}

bool Instances::shows_tags(const LaunchOption& option) const {
  return option.metadata_tags || cloud_.settings.metadata_tags;
}

std::optional<ApiError> refuse_launch(const Cloud& cloud, const LaunchOption& option) {
  const bool shown = option.metadata_tags || cloud.settings.metadata_tags;
  if (const auto wrong = unreadable_tag(option); wrong && shown)
    return ApiError{"InvalidParameterValue",
                    "'" + *wrong +
                        "' is not a valid tag key. Tag keys must match pattern "
                        "([0-9a-zA-Z\\-_+=,.@:]{1,255}), and must not be a reserved name "
                        "('.', '..', '_index')"};
  if (auto unknown = refuse_profile(cloud, option.profile)) return unknown;
  if (!is_type_name(option.type.view()))
    return ApiError{"InvalidParameterValue",
                    "Invalid value '" + option.type.str() + "' for InstanceType."};
  if (is_of_another_region(cloud.settings, option.image))
    return ApiError{"InvalidAMIID.NotFound",
                    "The image id '[" + option.image + "]' does not exist"};
  if (auto misplaced = refuse_placement(cloud, option)) return misplaced;
  if (auto wrong = refuse_interfaces(cloud, option)) return wrong;
  if (auto wrong = refuse_reserved(cloud, option)) return wrong;
  const std::string of_image = architecture_of_image(cloud.settings, option.image);
  const std::string of_type = architecture_of_type(option.type.str());
  if (of_image.empty() || of_type.empty() || of_image == of_type) return std::nullopt;
  return ApiError{"InvalidParameterValue",
                  "The architecture '" + of_type +
                      "' of the specified instance type does not match the architecture '" +
                      of_image +
                      "' of the specified AMI. Specify an instance type and an AMI "
                      "that have matching architectures, and try again."};
}

Expected<Instance> Instances::launch(const LaunchInstance& request) {
  const LaunchOption& option = request.option;
  if (!cloud_.has_zone(option.zone)) {
    return refusal("InvalidParameterValue",
                   "Invalid availability zone: [" + option.zone.str() + "]");
  }
  if (auto refused = refuse_launch(cloud_, option)) return tl::unexpected(std::move(*refused));
  if (request.spot && !Pools(cloud_).pays(option))
    return refusal("SpotMaxPriceTooLow",
                   "Your Spot request price of " + option.max_price +
                       " is lower than the minimum required Spot request fulfillment price of " +
                       std::to_string(Pools(cloud_).price(option.type, option.zone)) + ".");
  if (!has_capacity(option, request.spot)) {
    return refusal("InsufficientInstanceCapacity",
                   "We currently do not have sufficient " + option.type.str() +
                       " capacity in the Availability Zone you requested (" + option.zone.str() +
                       ").",
                   500);
  }
  Random& random = cloud_.random;
  Instance instance{
      .id = InstanceId("i-0" + random.hex(16)),
      .zone = option.zone,
      .type = option.type,
      .image = option.image,
      .key_name = option.key_name,
      .subnet = option.subnet,
      .address = "10." + std::to_string(random.below(256)) + '.' +
                 std::to_string(random.below(256)) + '.' + std::to_string(4 + random.below(250)),
      .user_data = option.user_data,
      .profile = option.profile,
      .client_token = request.client_token,
      .fleet = request.fleet,
      .spot_request = !request.spot                  ? ""
                      : request.spot_request.empty() ? "sir-" + random.hex(8)
                                                     : request.spot_request,
      .max_price = option.max_price,
      .template_id = option.template_id,
      .tags = option.instance_tags,
      .process = request.process,
      .metadata_tags = shows_tags(option),
      .tokens_optional = option.http_tokens.empty() ? cloud_.settings.tokens_optional
                                                    : option.http_tokens == "optional",
      .launched = cloud_.now,
      .when_interrupted = request.when_interrupted,
      .placement_group = option.placement_group,
      .interfaces = option.interfaces,
      .security_groups = option.security_groups,
      .extras = option.extras,
      .hop_limit = option.hop_limit == 0 ? 1 : option.hop_limit,
      .reservation = request.reservation,
      .launch_index = request.launch_index,
      .request_tags = option.request_tags,
      .reserved = option.reserved};
  if (request.fleet.kind != FleetKind::None)
    tag_of_fleet(instance, tag_of(request.fleet.kind), request.fleet.id);
  if (request.by) tag_of_fleet(instance, tag_of(FleetKind::Ec2Fleet), request.by);
  if (!option.template_id.empty()) {
    instance.tags["aws:ec2launchtemplate:id"] = option.template_id;
    instance.tags["aws:ec2launchtemplate:version"] = option.template_version;
  }
  cloud_.record("instance-launched", instance.id.str(), instance.zone.str());
  cloud_.schedule(random.within(cloud_.settings.boot), InstanceRuns{instance.id});
  return cloud_.instances.add(instance.id, instance, cloud_.now, cloud_.lag());
}

bool Instances::restart(const InstanceId& stopped) {
  const Instance* found = cloud_.instances.find(stopped);
  if (!found || found->state != InstanceState::Stopped) return false;
  const LaunchOption same{.type = found->type,
                          .zone = found->zone,
                          .max_price = found->max_price,
                          .reserved = found->reserved};
  if (refuse_reserved(cloud_, same)) return false;
  if (!has_capacity(same, is_spot(*found))) return false;
  Instance& instance = change(stopped);
  instance.state = InstanceState::Pending;
  instance.launched = cloud_.now;  // "the time that the instance was last launched": API_Instance
  instance.notice.reset();
  instance.rebalance.reset();
  instance.died.reset();
  cloud_.schedule(cloud_.random.within(cloud_.settings.boot), InstanceRuns{stopped});
  cloud_.record("instance-restarted", stopped.str(), instance.zone.str());
  return true;
}

// "You can't stop ... a Spot Instance that was launched by a one-time request", or by a fleet.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StopInstances.html
Expected<void> Instances::stop(const InstanceId& id) {
  const auto reached = reach(id);
  if (!reached) return tl::unexpected(reached.error());
  const Instance& found = **reached;
  if (found.state == InstanceState::Stopping || found.state == InstanceState::Stopped) return {};
  if (!is_alive(found))
    return refusal("IncorrectInstanceState", "This instance '" + id.str() +
                                                 "' is not in a state from which it can be "
                                                 "stopped.");
  if (found.extras.keeps_running)
    return refusal("OperationNotPermitted", "The instance '" + id.str() +
                                                "' may not be stopped. Modify its "
                                                "'disableApiStop' instance attribute.");
  const FleetRequest* const request = cloud_.fleets.find(found.fleet.id);
  const bool persistent = request != nullptr && request->fleet.kind == FleetKind::None &&
                          request->type == FleetType::Maintain;
  if (is_spot(found) && !persistent)
    return refusal("UnsupportedOperation",
                   "You can't stop the Spot Instance '" + id.str() +
                       "' because it is associated with a one-time Spot Instance request. You can "
                       "only stop Spot Instances associated with persistent Spot Instance "
                       "requests.");
  Instance& instance = change(id);
  instance.state = InstanceState::Stopping;
  instance.reason = user_reason;
  instance.died = cloud_.now;
  if (instance.started) cloud_.occur(InstanceShuttingDown{id});
  cloud_.schedule(cloud_.random.within(ends_within(instance)), ShutDownEnds{id});
  cloud_.record("instance-stopping", id.str(), instance.reason);
  return {};
}

void Instances::on(const ReplacedEnds& happening) {
  const Instance& it = *cloud_.instances.find(happening.id);
  if (!is_alive(it)) return;
  if (it.fleet.kind == FleetKind::AutoScalingGroup)
    Groups(cloud_).take_out(it.id);
  else
    shut_down(happening.id, "Server.SpotInstanceTermination: Replaced by its fleet");
}

Expected<Instance> Instances::terminate(const InstanceId& id, const std::string& reason) {
  const auto reached = reach(id);
  if (!reached) return tl::unexpected(reached.error());
  return shut_down(id, reason);
}

Instance Instances::shut_down(const InstanceId& id, const std::string& reason) {
  const Instance& found = *cloud_.instances.find(id);
  const InstanceState before = found.state;
  if (before == InstanceState::ShuttingDown || before == InstanceState::Terminated) {
    return found;  // "this operation is idempotent" (API_TerminateInstances)
  }
  Instance& instance = change(id);
  instance.state = InstanceState::ShuttingDown;
  instance.reason = reason;
  instance.died = cloud_.now;
  if (instance.started) cloud_.occur(InstanceShuttingDown{id});
  cloud_.schedule(cloud_.random.within(ends_within(instance)), ShutDownEnds{id});
  cloud_.record("instance-shutting-down", id.str(), reason);
  const Instance answer = instance;
  if (answer.fleet.id) Fleets(cloud_).instance_ended(answer.fleet.id);
  return answer;
}

// "The notice is made available in the instance metadata two minutes before"; for hibernation
// "hibernation begins immediately" (spot-instance-termination-notices.html,
// hibernate-spot-instances.html).
Expected<void> Instances::interrupt(const InstanceId& id, InterruptionAction action,
                                    Duration lead) {
  const Instance* found = cloud_.instances.find(id);
  if (!found || !is_alive(*found)) {
    return refusal("IncorrectInstanceState", "The instance '" + id.str() + "' is not running.");
  }
  if (!is_spot(*found)) return not_spot(id);
  if (action == InterruptionAction::Hibernate) lead = Duration{0};
  notify(id, action, lead);
  // The capacity is what AWS wants back: nothing new starts in this zone for a while.
  const Duration lost = lead + cloud_.random.within(cloud_.settings.capacity_lost);
  Capacity& capacity = cloud_.capacity[found->zone];
  capacity.empty_until = std::max(capacity.empty_until, cloud_.now + lost);
  cloud_.schedule(lost, CapacityReturns{found->zone});
  return {};
}

void Instances::give_notice(const InstanceId& id, Duration lead) {
  const InterruptionAction action = cloud_.instances.find(id)->when_interrupted;
  notify(id, action, action == InterruptionAction::Hibernate ? Duration{0} : lead);
}

void Instances::notify(const InstanceId& id, InterruptionAction action, Duration lead) {
  Instance& instance = *cloud_.instances.find(id);
  instance.notice = Notice{action, cloud_.now + lead, cloud_.number()};
  cloud_.schedule(lead, InterruptionDue{id, instance.notice->number});
  cloud_.record("interruption-notice", id.str(), std::to_string(lead.count()) + " ms");
}

Expected<void> Instances::rebalance(const InstanceId& id) {
  Instance* instance = cloud_.instances.find(id);
  if (!instance || !is_alive(*instance)) {
    return refusal("IncorrectInstanceState", "The instance '" + id.str() + "' is not running.");
  }
  if (!is_spot(*instance)) return not_spot(id);
  instance->rebalance = cloud_.now;
  cloud_.record("rebalance-recommendation", id.str());
  Fleets(cloud_).rebalance(id);
  return {};
}

Expected<void> Instances::withdraw(const InstanceId& id) {
  Instance* instance = cloud_.instances.find(id);
  if (!instance || (!instance->notice && !instance->rebalance)) {
    return refusal("IncorrectInstanceState", "The instance '" + id.str() + "' has no notice.");
  }
  if (instance->notice) cloud_.capacity[instance->zone].empty_until = cloud_.now;
  instance->notice.reset();
  instance->rebalance.reset();
  cloud_.record("notice-withdrawn", id.str());
  return {};
}

Expected<void> Instances::kill(const InstanceId& id, const std::string& reason) {
  const Instance* found = cloud_.instances.find(id);
  if (!found || !is_alive(*found)) {
    return refusal("IncorrectInstanceState", "The instance '" + id.str() + "' is not running.");
  }
  end(id, InstanceState::ShuttingDown, reason);
  return {};
}

Expected<void> Instances::halted(const InstanceId& id) {
  const Instance* found = cloud_.instances.find(id);
  if (!found || !is_alive(*found) || !found->extras.stops_itself || is_spot(*found))
    return kill(id, halted_reason);
  end(id, InstanceState::Stopping, halted_reason);
  return {};
}

// The instance's processes die now; the API shows shutting-down (stopping) for a while.
void Instances::end(const InstanceId& id, InstanceState state, const std::string& reason) {
  Instance& instance = change(id);
  instance.state = state;
  instance.reason = reason;
  instance.died = cloud_.now;
  if (instance.started) cloud_.occur(InstanceKilled{id});
  instance.started = false;
  cloud_.schedule(cloud_.random.within(ends_within(instance)), ShutDownEnds{id});
  cloud_.record("instance-killed", id.str(), reason);
  const FleetId fleet = instance.fleet.id;
  if (fleet) Fleets(cloud_).instance_ended(fleet);
}

const Instance* Instances::seen(const InstanceId& id) const {
  const Instance* instance = cloud_.instances.seen(id, cloud_.now);
  if (!instance || instance->state != InstanceState::Terminated) return instance;
  const Time gone =
      instance->died.value_or(instance->launched) + cloud_.settings.terminated_visible;
  return cloud_.now < gone ? instance : nullptr;
}

std::vector<Instance> Instances::list() const {
  std::vector<Instance> instances;
  cloud_.instances.each([&](const Instance& instance) {
    if (const Instance* shown = seen(instance.id)) instances.push_back(*shown);
  });
  return instances;
}

void Instances::on(const InstanceRuns& happening) {
  if (cloud_.instances.find(happening.id)->state != InstanceState::Pending) return;
  Instance& instance = change(happening.id);
  instance.state = InstanceState::Running;
  instance.started = true;
  cloud_.occur(InstanceStarted{instance.id, instance.user_data, instance.zone, instance.type,
                               instance.process});
  cloud_.record("instance-running", instance.id.str(), instance.zone.str());
}

void Instances::on(const FleetTagged& happening) {
  change(happening.id).tags[happening.key] = happening.value;
}

void Instances::on(const ReservedEnds& happening) {
  if (is_alive(*cloud_.instances.find(happening.id)))
    end(happening.id, InstanceState::ShuttingDown, reclaimed_reason);
}

void Instances::on(const ShutDownEnds& happening) {
  const InstanceState before = cloud_.instances.find(happening.id)->state;
  if (before != InstanceState::ShuttingDown && before != InstanceState::Stopping) return;
  Instance& instance = change(happening.id);
  if (instance.started) cloud_.occur(InstanceKilled{instance.id});
  instance.started = false;
  const bool stops = before == InstanceState::Stopping;
  instance.state = stops ? InstanceState::Stopped : InstanceState::Terminated;
  cloud_.record(stops ? "instance-stopped" : "instance-terminated", instance.id.str());
  // "When a Spot Instance is stopped, its EBS volumes stay attached" (interruption behaviour page).
  if (!stops) Volumes(cloud_).release(happening.id);
}

void Instances::on(const InterruptionDue& happening) {
  const Instance* instance = cloud_.instances.find(happening.id);
  if (!is_alive(*instance) || !instance->notice || instance->notice->number != happening.notice) {
    return;
  }
  if (instance->notice->action == InterruptionAction::Terminate) {
    end(happening.id, InstanceState::ShuttingDown, interrupted_reason);
  } else {
    end(happening.id, InstanceState::Stopping, stopped_reason);
  }
}

}  // namespace spotter::world
