#include "tests/world/fleets.hpp"

#include <algorithm>
#include <cmath>

#include "tests/world/ec2_parameters.hpp"
#include "tests/world/groups.hpp"
#include "tests/world/instances.hpp"

namespace spotter::world {

namespace {

// An instance on the way out of its group does not count as one that the group has to have.
bool counts(const Instance& instance) { return is_alive(instance) && !instance.departure; }

bool is_cancelled(const FleetRequest& fleet) { return fleet.state >= FleetState::CancelledRunning; }

// Error codes of one id: API_CancelSpotFleetRequestsError.html, API_DeleteFleetError.html
ApiError cancel_error(FleetKind kind, const std::string& what) {
  if (kind == FleetKind::SpotFleet) {
    return {"fleetRequest" + what, "The spot fleet request: " + what};
  }
  return {"fleet" + what, "The fleet: " + what};
}

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/fleet-quotas.html
constexpr int most_capacity = 10000;

// The references leave open what becomes of on-demand instances when only the total is lowered:
// here it is refused, so that the caller has to say.
Expected<void> check_shares(int target, int on_demand) {
  if (target > most_capacity)
    return refusal("MaxTargetCapacityExceeded", "The target capacity of a fleet is at most " +
                                                    std::to_string(most_capacity) + ".");
  if (on_demand >= 0 && on_demand <= target) return {};
  return refusal("InvalidParameterValue", "The on-demand target capacity (" +
                                              std::to_string(on_demand) +
                                              ") is not between 0 and the total target capacity (" +
                                              std::to_string(target) + ").");
}

}  // namespace

std::string_view name(FleetState state, FleetKind kind) {
  constexpr std::string_view spot[] = {
      "submitted", "active", "modifying", "cancelled_running", "cancelled_terminating",
      "cancelled"};
  constexpr std::string_view ec2[] = {
      "submitted", "active", "modifying", "deleted_running", "deleted_terminating", "deleted"};
  return (kind == FleetKind::SpotFleet ? spot : ec2)[static_cast<std::size_t>(state)];
}

double usual_price(const InstanceType& type, const Zone& zone) {
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
  if (auto fits = check_shares(request.target, request.on_demand_target); !fits)
    return tl::unexpected(fits.error());
  const bool spot_fleet = request.fleet.kind == FleetKind::SpotFleet;
  if (!request.group)
    request.fleet.id = request.fleet.kind == FleetKind::None
                           ? FleetId("sir-" + cloud_.random.hex(8))
                           : FleetId((spot_fleet ? "sfr-" : "fleet-") + cloud_.random.uuid());
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

// AWS does not document which states cannot be cancelled; a second cancel of a finished request is
// refused here. A second deletion of an EC2 Fleet succeeds.
std::vector<FleetCancellation> Fleets::cancel(const std::vector<FleetId>& ids, FleetKind kind,
                                              bool terminate) {
  std::vector<FleetCancellation> results;
  for (const FleetId& id : ids) {
    const FleetRequest* found = cloud_.fleets.find(id);
    FleetCancellation& result = results.emplace_back(FleetCancellation{.id = id});
    if (!found || found->fleet.kind != kind) {
      const char* prefix = kind == FleetKind::SpotFleet ? "sfr-" : "fleet-";
      const bool malformed = !is_resource_id(id.view(), prefix);
      result.error = cancel_error(kind, malformed ? "IdMalformed" : "IdDoesNotExist");
      continue;
    }
    if (cloud_.cancels_to_fail > 0) {
      --cloud_.cancels_to_fail;
      result.error = ApiError{"unexpectedError", "An unexpected error occurred."};
      continue;
    }
    result.before = found->state;
    // API_DeleteFleets.html: "You can't delete an instant fleet without terminating its instances."
    if (!terminate && found->type == FleetType::Instant) {
      result.error = ApiError{"fleetNotInDeletableState",
                              "A fleet of type instant can be deleted with its instances only: set "
                              "TerminateInstances."};
      continue;
    }
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
        Instances(cloud_).shut_down(instance, user_reason);
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
  const int target = request.target.value_or(found->target);
  const int on_demand = request.on_demand.value_or(found->on_demand_target);
  if (auto fits = check_shares(target, on_demand); !fits) return fits;
  FleetRequest& fleet = change(request.id);
  fleet.target = target;
  fleet.on_demand_target = on_demand;
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
  return fulfilled(fleet, true) + fulfilled(fleet, false);
}

double weight_of(const FleetRequest& fleet, const Instance& instance) {
  const auto option = std::ranges::find_if(fleet.options, [&](const LaunchOption& it) {
    return it.type == instance.type && it.zone == instance.zone;
  });
  return option == fleet.options.end() ? 1 : option->weight;
}

double Fleets::fulfilled(const FleetRequest& fleet, bool spot) const {
  double sum = 0;
  for (const InstanceId& id : fleet.instances) {
    const Instance& instance = *cloud_.instances.find(id);
    if (!counts(instance) || instance.replaced || is_spot(instance) != spot) continue;
    sum += weight_of(fleet, instance);
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

void Fleets::rebalance(const InstanceId& id) {
  Instance& instance = *cloud_.instances.find(id);
  FleetRequest* const fleet = cloud_.fleets.find(instance.fleet.id);
  if (!fleet || !fleet->rebalancing || is_cancelled(*fleet) || instance.replaced) return;
  instance.replaced = true;
  if (const auto& delay = fleet->rebalancing->terminates_after)
    cloud_.schedule(*delay, ReplacedEnds{id});
  wake(*fleet, cloud_.settings.fleet_reaction);
}

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html
Expected<Instance> Fleets::launch_persistent(const LaunchInstance& request) {
  const FleetId id("sir-" + cloud_.random.hex(8));
  LaunchInstance one = request;
  one.fleet = {FleetKind::None, id};
  one.spot_request = id.str();
  const auto launched = Instances(cloud_).launch(one);
  if (!launched) return launched;
  const SpotTerms& terms = request.option.terms;
  FleetRequest made{.fleet = {FleetKind::None, id},
                    .state = FleetState::Active,
                    .when_interrupted = terms.when_interrupted,
                    .valid_until = terms.valid_until,
                    .options = {request.option},
                    .tags = request.option.request_tags,
                    .created = cloud_.now,
                    .instances = {launched->id}};
  cloud_.fleets.add(id, std::move(made), cloud_.now, cloud_.lag());
  if (terms.valid_until)
    cloud_.schedule(std::max(Duration{0}, *terms.valid_until - cloud_.now), FleetWakes{id, 0});
  return launched;
}

void Fleets::cancel_spot_request(const FleetId& id) {
  FleetRequest& request = change(id);
  request.state = FleetState::CancelledRunning;
  cloud_.record("fleet-cancelled", id.str());
  wake(request, cloud_.settings.fleet_reaction);
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
  for (const bool spot : {false, true}) terminate_excess(fleet, spot);
  // A fleet of type instant has launched all that it launches with its request.
  if (fleet.type != FleetType::Instant) launch_missing(fleet);
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
    if (terminate) Instances(cloud_).shut_down(id, user_reason);
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

}  // namespace spotter::world
