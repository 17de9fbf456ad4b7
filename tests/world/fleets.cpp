#include "tests/world/fleets.hpp"

#include <algorithm>
#include <cmath>

#include "tests/world/groups.hpp"
#include "tests/world/instances.hpp"

namespace spotter::world {

namespace {

constexpr const char* cancelled_reason = "Client.UserInitiatedShutdown: User initiated shutdown";

// Who is on the way out of its group is none of those that the group has to have.
bool counts(const Instance& instance) { return is_alive(instance) && !instance.departure; }

bool is_suspended(const FleetRequest& fleet, const char* process) {
  return fleet.group && fleet.group->suspended.count(process) != 0;
}

bool is_cancelled(const FleetRequest& fleet) { return fleet.state >= FleetState::CancelledRunning; }

// Error codes of one id: API_CancelSpotFleetRequestsError.html, API_DeleteFleetError.html
ApiError cancel_error(FleetKind kind, const std::string& what) {
  if (kind == FleetKind::SpotFleet) {
    return {"fleetRequest" + what, "The spot fleet request: " + what};
  }
  return {"fleet" + what, "The fleet: " + what};
}

// Spot Fleet's word is in either case, EC2 Fleet's is hyphenated.
bool keeps_excess(const std::string& policy) {
  return policy == "noTermination" || policy == "NoTermination" || policy == "no-termination";
}

// A group with a mixed instances policy launches by CreateFleet, each time by a fleet of type
// instant:
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-mixed-instances-groups.html
bool is_mixed(const FleetRequest& fleet) {
  const auto first = fleet.sent.lower_bound("MixedInstancesPolicy.");
  return fleet.group && first != fleet.sent.end() &&
         first->first.rfind("MixedInstancesPolicy.", 0) == 0;
}

}  // namespace

void Fleets::add_instant(const FleetId& id, const Instance& instance, const LaunchOption& option) {
  FleetRequest made{.fleet = {FleetKind::Ec2Fleet, id},
                    .type = FleetType::Instant,
                    .state = FleetState::Active,
                    .options = {option},
                    .created = cloud_.now,
                    .instances = {instance.id}};
  cloud_.fleets.add(id, std::move(made), cloud_.now, cloud_.lag());
}

std::string_view name(FleetState state, FleetKind kind) {
  constexpr std::string_view spot[] = {
      "submitted", "active", "modifying", "cancelled_running", "cancelled_terminating",
      "cancelled"};
  constexpr std::string_view ec2[] = {
      "submitted", "active", "modifying", "deleted_running", "deleted_terminating", "deleted"};
  return (kind == FleetKind::SpotFleet ? spot : ec2)[static_cast<std::size_t>(state)];
}

double spot_price(const InstanceType& type, const Zone& zone) {
  std::uint64_t mixed = 14695981039346656037u;  // FNV-1a: the same everywhere
  for (const char letter : type.str() + zone.str()) {
    mixed = (mixed ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  }
  const double base = type.str().rfind("p", 0) == 0 ? 0.9 : 0.15;
  return std::round(base * (1.0 + static_cast<double>(mixed % 1000) / 2000.0) * 10000) / 10000;
}

FleetRequest& Fleets::change(const FleetId& id) {
  return cloud_.fleets.change(id, cloud_.now, cloud_.lag());
}

Expected<FleetRequest> Fleets::create(FleetRequest request) {
  std::optional<FleetRequest> earlier;
  cloud_.fleets.each([&](const FleetRequest& other) {
    if (!request.client_token.empty() && other.client_token == request.client_token)
      earlier = other;
  });
  if (earlier) {
    if (earlier->sent == request.sent) return *earlier;
    return refusal("IdempotentParameterMismatch",
                   "The client token was used with other parameters.");
  }
  if (request.options.empty()) {
    return refusal("InvalidSpotFleetRequestConfig", "There is no launch specification.");
  }
  const bool spot_fleet = request.fleet.kind == FleetKind::SpotFleet;
  if (!request.group)
    request.fleet.id = FleetId((spot_fleet ? "sfr-" : "fleet-") + cloud_.random.uuid());
  request.created = cloud_.now;
  cloud_.record("fleet-submitted", request.fleet.id.str(), std::to_string(request.target));
  const FleetId id = request.fleet.id;
  FleetRequest& fleet = cloud_.fleets.add(id, std::move(request), cloud_.now, cloud_.lag());
  if (fleet.type == FleetType::Instant) {
    fleet.state = FleetState::Active;
    launch_missing(fleet);
  } else {
    wake(fleet, cloud_.settings.fleet_reaction);
  }
  if (fleet.valid_until) {
    const Duration left = std::max(Duration{0}, *fleet.valid_until - cloud_.now);
    cloud_.schedule(left, FleetWakes{id, 0});
  }
  return fleet;
}

// Which states cannot be cancelled is not documented; a second cancel of a finished request is
// refused here. A second deletion of an EC2 Fleet succeeds.
std::vector<FleetCancellation> Fleets::cancel(const std::vector<FleetId>& ids, FleetKind kind,
                                              bool terminate) {
  std::vector<FleetCancellation> results;
  for (const FleetId& id : ids) {
    const FleetRequest* found = cloud_.fleets.find(id);
    FleetCancellation& result = results.emplace_back(FleetCancellation{.id = id});
    if (!found || found->fleet.kind != kind) {
      const char* prefix = kind == FleetKind::SpotFleet ? "sfr-" : "fleet-";
      const bool malformed = id.str().rfind(prefix, 0) != 0;
      result.error = cancel_error(kind, malformed ? "IdMalformed" : "IdDoesNotExist");
      continue;
    }
    if (cloud_.cancels_to_fail > 0) {
      --cloud_.cancels_to_fail;
      result.error = ApiError{"unexpectedError", "An unexpected error occurred."};
      continue;
    }
    result.before = found->state;
    if (found->state == FleetState::Cancelled || found->state == FleetState::CancelledTerminating) {
      result.after = found->state;
      if (kind == FleetKind::SpotFleet) result.error = cancel_error(kind, "NotInCancellableState");
      continue;
    }
    FleetRequest& fleet = change(id);
    fleet.state = terminate ? FleetState::CancelledTerminating : FleetState::CancelledRunning;
    cloud_.record("fleet-cancelled", id.str());
    const std::vector<InstanceId> instances = fleet.instances;
    for (const InstanceId& instance : instances) {
      const Instance& its = *cloud_.instances.find(instance);
      if (terminate && its.state != InstanceState::Terminated) {
        Instances(cloud_).shut_down(instance, cancelled_reason);
      }
    }
    result.after = fleet.state;
    wake(fleet, cloud_.settings.fleet_reaction);
  }
  return results;
}

Expected<void> Fleets::modify(const ModifyFleet& request, FleetKind kind) {
  const FleetRequest* found = cloud_.fleets.find(request.id);
  if (!found || found->fleet.kind != kind) {
    return refusal(kind == FleetKind::SpotFleet ? "InvalidSpotFleetRequestId.NotFound"
                                                : "InvalidFleetId.NotFound",
                   "The fleet '" + request.id.str() + "' does not exist.");
  }
  // "You can only modify a Spot Fleet request of type maintain" (API_ModifySpotFleetRequest.html)
  if (found->state != FleetState::Active || found->type != FleetType::Maintain) {
    return refusal(kind == FleetKind::SpotFleet ? "FleetNotInModifiableState" : "InvalidFleetState",
                   "The fleet '" + request.id.str() + "' cannot be modified in its present state.");
  }
  FleetRequest& fleet = change(request.id);
  if (request.target) fleet.target = *request.target;
  if (request.excess_policy) fleet.excess_policy = *request.excess_policy;
  fleet.state = FleetState::Modifying;
  cloud_.record("fleet-modified", request.id.str(), std::to_string(fleet.target));
  wake(fleet, cloud_.settings.fleet_reaction);
  return {};
}

const FleetRequest* Fleets::seen(const FleetId& id) const {
  return cloud_.fleets.seen(id, cloud_.now);
}

std::vector<FleetRequest> Fleets::list(FleetKind kind) const {
  std::vector<FleetRequest> fleets;
  cloud_.fleets.each_seen(cloud_.now, [&](const FleetRequest& fleet) {
    if (fleet.fleet.kind == kind) fleets.push_back(fleet);
  });
  return fleets;
}

std::vector<Instance> Fleets::living(const FleetRequest& fleet) const {
  std::vector<Instance> instances;
  for (const InstanceId& id : fleet.instances) {
    const Instance* instance = cloud_.instances.find(id);
    if (counts(*instance)) instances.push_back(*instance);
  }
  return instances;
}

double Fleets::fulfilled(const FleetRequest& fleet) const {
  double sum = 0;
  for (const InstanceId& id : fleet.instances) {
    const Instance& instance = *cloud_.instances.find(id);
    if (!counts(instance)) continue;
    const auto option = std::find_if(
        fleet.options.begin(), fleet.options.end(),
        [&](const auto& it) { return it.type == instance.type && it.zone == instance.zone; });
    sum += option == fleet.options.end() ? 1 : option->weight;
  }
  return sum;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SpotFleetRequestConfig.html,
// ActivityStatus
std::string Fleets::activity(const FleetRequest& fleet) const {
  const double have = fulfilled(fleet);
  if (is_cancelled(fleet)) return have > 0 ? "pending_termination" : "fulfilled";
  if (have > fleet.target) return "pending_termination";
  return have < fleet.target ? "pending_fulfillment" : "fulfilled";
}

// The earlier of two wake-ups counts.
void Fleets::wake(FleetRequest& fleet, Range range) {
  const Duration later = cloud_.random.within(range);
  if (fleet.wakes_at && *fleet.wakes_at <= cloud_.now + later) return;
  fleet.wake = cloud_.number();
  fleet.wakes_at = cloud_.now + later;
  cloud_.schedule(later, FleetWakes{fleet.fleet.id, fleet.wake});
}

void Fleets::look_soon(const FleetId& id) {
  wake(*cloud_.fleets.find(id), cloud_.settings.fleet_reaction);
}

void Fleets::instance_ended(const FleetId& id) {
  FleetRequest* fleet = cloud_.fleets.find(id);
  if (fleet) wake(*fleet, cloud_.settings.replacement);
}

void Fleets::capacity_changed() {
  std::vector<FleetId> hungry;
  cloud_.fleets.each([&](const FleetRequest& fleet) {
    if (!is_cancelled(fleet) && fulfilled(fleet) < fleet.target) hungry.push_back(fleet.fleet.id);
  });
  for (const FleetId& id : hungry) wake(*cloud_.fleets.find(id), cloud_.settings.fleet_reaction);
}

void Fleets::on(const FleetWakes& happening) {
  FleetRequest& found = *cloud_.fleets.find(happening.id);
  if (happening.wake == found.wake) found.wakes_at.reset();
  if (happening.wake != 0 && happening.wake != found.wake) return;
  if (is_cancelled(found)) return settle(found);
  if (found.valid_until && *found.valid_until <= cloud_.now) return expire(found);
  if (found.valid_from && cloud_.now < *found.valid_from) {
    const Duration left = *found.valid_from - cloud_.now;
    return wake(found, {left, left});
  }
  FleetRequest& fleet = found.state == FleetState::Active ? found : change(happening.id);
  if (fleet.state != FleetState::Active) cloud_.record("fleet-active", fleet.fleet.id.str());
  fleet.state = FleetState::Active;
  terminate_excess(fleet);
  launch_missing(fleet);
}

// "terminateInstancesWithExpiration: indicates whether running instances are terminated when the
// request expires" (API_SpotFleetRequestConfigData.html)
void Fleets::expire(FleetRequest& found) {
  FleetRequest& fleet = change(found.fleet.id);
  cloud_.record("fleet-expired", fleet.fleet.id.str());
  const std::vector<InstanceId> instances = fleet.instances;
  const bool terminate = fleet.terminate_with_expiration;
  fleet.state = terminate ? FleetState::CancelledTerminating : FleetState::CancelledRunning;
  for (const InstanceId& id : instances) {
    if (terminate) Instances(cloud_).shut_down(id, cancelled_reason);
  }
  settle(fleet);
}

// A cancelled fleet is done when its last instance has ended.
void Fleets::settle(FleetRequest& fleet) {
  if (fleet.state == FleetState::Cancelled) return;
  for (const InstanceId& id : fleet.instances) {
    const InstanceState state = cloud_.instances.find(id)->state;
    if (state != InstanceState::Terminated) return wake(fleet, cloud_.settings.fleet_reaction);
  }
  change(fleet.fleet.id).state = FleetState::Cancelled;
  cloud_.record("fleet-ended", fleet.fleet.id.str());
}

// Which instances go first is the allocation strategy's business and not promised: chance decides.
void Fleets::terminate_excess(FleetRequest& fleet) {
  if (is_suspended(fleet, "Terminate")) return;
  if (keeps_excess(fleet.excess_policy)) return;
  while (fulfilled(fleet) > fleet.target) {
    const std::vector<Instance> alive = living(fleet);
    if (static_cast<int>(alive.size()) <= fleet.target) return;
    const InstanceId victim = alive[cloud_.random.below(alive.size())].id;
    if (fleet.group)
      Groups(cloud_).take_out(victim);
    else
      Instances(cloud_).shut_down(victim, cancelled_reason);
  }
}

// A one-time request asks for its capacity once and replaces nothing.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-request-type.html
void Fleets::launch_missing(FleetRequest& fleet) {
  if (is_suspended(fleet, "Launch")) return;
  const bool once = fleet.type != FleetType::Maintain;
  const auto missing = [&] {
    const double have = once ? static_cast<double>(fleet.instances.size()) : fulfilled(fleet);
    return have < fleet.target;
  };
  while (missing()) {
    if (restart_one(fleet) || launch_one(fleet)) continue;
    record_failure(fleet);
    if (fleet.type != FleetType::Instant) wake(fleet, cloud_.settings.capacity_retry);
    return;
  }
}

// Of each reason one line in the history, as often as it is tried.
void Fleets::record_failure(FleetRequest& fleet) {
  fleet.errors = refusals(fleet);
  for (const ApiError& it : fleet.errors)
    cloud_.record("launch-failed", fleet.fleet.id.str(), it.message);
  const bool one_fits = std::ranges::any_of(
      fleet.options, [&](const LaunchOption& it) { return !refuse_launch(cloud_, it); });
  if (!one_fits) return;
  cloud_.record("fleet-no-capacity", fleet.fleet.id.str(),
                "There is no Spot capacity available that matches your request.");
  fleet.errors.push_back(
      {"InsufficientInstanceCapacity", "There is not enough capacity to fulfill your request."});
}

std::vector<ApiError> Fleets::refusals(const FleetRequest& fleet) const {
  std::vector<ApiError> found;
  for (const LaunchOption& option : fleet.options)
    if (auto refused = refuse_launch(cloud_, option);
        refused && std::ranges::find(found, refused->message, &ApiError::message) == found.end())
      found.push_back(std::move(*refused));
  return found;
}

bool Fleets::restart_one(FleetRequest& fleet) {
  if (fleet.type != FleetType::Maintain) return false;
  return std::any_of(fleet.instances.begin(), fleet.instances.end(),
                     [&](const InstanceId& id) { return Instances(cloud_).restart(id); });
}

std::vector<const LaunchOption*> Fleets::open_pools(const FleetRequest& fleet) const {
  std::vector<const LaunchOption*> pools;
  for (const LaunchOption& option : fleet.options) {
    if (Instances(cloud_).has_capacity(option.zone) && !refuse_launch(cloud_, option))
      pools.push_back(&option);
  }
  return pools;
}

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-allocation-strategy.html: by price,
// spread over the pools, or where most capacity is (here: by chance).
bool Fleets::launch_one(FleetRequest& fleet) {
  const std::vector<const LaunchOption*> pools = open_pools(fleet);
  if (pools.empty()) return false;
  std::size_t chosen = cloud_.random.below(pools.size());
  const std::vector<Instance> alive = living(fleet);
  const auto rank = [&](const LaunchOption& pool) -> double {
    if (fleet.allocation == "diversified") {
      return static_cast<double>(std::count_if(alive.begin(), alive.end(), [&](const auto& it) {
        return it.zone == pool.zone && it.type == pool.type;
      }));
    }
    const bool by_price = fleet.allocation == "lowestPrice" || fleet.allocation == "lowest-price";
    return by_price ? spot_price(pool.type, pool.zone) / pool.weight : 0;
  };
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (rank(*pools[i]) < rank(*pools[chosen])) chosen = i;
  }
  const int on_demand = static_cast<int>(std::count_if(
      alive.begin(), alive.end(), [](const Instance& it) { return it.spot_request.empty(); }));
  const FleetId by = is_mixed(fleet) ? FleetId("fleet-" + cloud_.random.uuid()) : FleetId();
  const auto launched = Instances(cloud_).launch({.option = *pools[chosen],
                                                  .fleet = fleet.fleet,
                                                  .spot = on_demand >= fleet.on_demand_target,
                                                  .when_interrupted = fleet.when_interrupted,
                                                  .by = by});
  if (!launched) return false;
  fleet.instances.push_back(launched->id);
  if (by) add_instant(by, *launched, *pools[chosen]);
  return true;
}

}  // namespace spotter::world
