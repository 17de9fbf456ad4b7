// Launches and ends a fleet's instances so that it has its target capacity.
#include <algorithm>

#include "tests/world/fleets.hpp"
#include "tests/world/groups.hpp"
#include "tests/world/instances.hpp"
#include "tests/world/pools.hpp"

namespace spotter::world {

namespace {

bool is_suspended(const FleetRequest& fleet, const char* process) {
  return fleet.group && fleet.group->suspended.count(process) != 0;
}

int wanted(const FleetRequest& fleet, bool spot) {
  return spot ? fleet.target - fleet.on_demand_target : fleet.on_demand_target;
}

// Spot Fleet's word is in either case, EC2 Fleet's is hyphenated.
bool keeps_excess(const std::string& policy) {
  return policy == "noTermination" || policy == "NoTermination" || policy == "no-termination";
}

// Of a single spot request its id, which is its instances' request's.
std::string request_of(const FleetRequest& fleet) {
  return fleet.fleet.kind == FleetKind::None ? fleet.fleet.id.str() : std::string();
}

bool is_stopped_by_user(const Instance& it) {
  return (it.state == InstanceState::Stopped || it.state == InstanceState::Stopping) &&
         it.reason == user_reason;
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

// The allocation strategy decides which instances go first, and EC2 promises no order: chance
// decides here.
void Fleets::terminate_excess(FleetRequest& fleet, bool spot) {
  if (is_suspended(fleet, "Terminate")) return;
  if (keeps_excess(fleet.excess_policy)) return;
  double have = fulfilled(fleet, spot);
  if (have <= wanted(fleet, spot)) return;
  std::vector<Instance> alive = living(fleet);
  std::erase_if(alive, [&](const Instance& it) { return is_spot(it) != spot; });
  while (have > wanted(fleet, spot) && static_cast<int>(alive.size()) > wanted(fleet, spot)) {
    const auto at = alive.begin() + static_cast<std::ptrdiff_t>(cloud_.random.below(alive.size()));
    if (!at->replaced) have -= weight_of(fleet, *at);
    if (fleet.group)
      Groups(cloud_).take_out(at->id);
    else
      Instances(cloud_).shut_down(at->id, user_reason);
    alive.erase(at);
  }
}

// A one-time request asks for its capacity once and replaces nothing.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-request-type.html
void Fleets::launch_missing(FleetRequest& fleet) {
  if (is_suspended(fleet, "Launch")) return;
  const bool rests = std::ranges::any_of(fleet.instances, [&](const InstanceId& id) {
    return is_stopped_by_user(*cloud_.instances.find(id));
  });
  if (rests && fleet.fleet.kind == FleetKind::None) return;
  fleet.errors.clear();
  for (const bool spot : {false, true})
    if (!launch_missing(fleet, spot)) record_failure(fleet, spot);
  if (!fleet.errors.empty() && fleet.type != FleetType::Instant)
    wake(fleet, cloud_.settings.capacity_retry);
}

// Counts again only after the least number of launches that can do: a fleet may have thousands.
bool Fleets::launch_missing(FleetRequest& fleet, bool spot) {
  const bool once = fleet.type != FleetType::Maintain;
  const auto missing = [&] {
    const auto launched = std::ranges::count_if(fleet.instances, [&](const InstanceId& id) {
      return is_spot(*cloud_.instances.find(id)) == spot;
    });
    return wanted(fleet, spot) - (once ? static_cast<double>(launched) : fulfilled(fleet, spot));
  };
  double most = 1;  // that one launch can bring
  for (const LaunchOption& it : fleet.options) most = once ? 1 : std::max(most, it.weight);
  bool restarts = true;
  for (double lacks = missing(); lacks > 0; lacks = missing())
    for (; lacks > 0; lacks -= most) {
      restarts = restarts && restart_one(fleet, spot);
      if (!restarts && !launch_one(fleet, spot)) return false;
    }
  return true;
}

// Writes one line of history for each reason, at every try.
void Fleets::record_failure(FleetRequest& fleet, bool spot) {
  for (const ApiError& it : refusals(fleet)) {
    cloud_.record("launch-failed", fleet.fleet.id.str(), it.message);
    fleet.errors.push_back({it, spot});
  }
  const auto fits = [&](const LaunchOption& it) { return !refuse_launch(cloud_, it); };
  if (std::ranges::none_of(fleet.options, fits)) return;
  const auto pays = [&](const LaunchOption& it) { return !spot || Pools(cloud_).pays(it); };
  if (std::ranges::none_of(fleet.options, pays)) {
    cloud_.record("launch-failed", fleet.fleet.id.str(), "SpotMaxPriceTooLow");
    return fleet.errors.push_back(
        {{"SpotMaxPriceTooLow",
          "Your Spot request price of " + fleet.options.front().max_price +
              " is lower than the minimum required Spot request fulfillment price."},
         spot});
  }
  cloud_.record("fleet-no-capacity", fleet.fleet.id.str(),
                spot ? "There is no Spot capacity available that matches your request."
                     : "There is no On-Demand capacity available that matches your request.");
  fleet.errors.push_back(
      {{"InsufficientInstanceCapacity", "There is not enough capacity to fulfill your request."},
       spot});
}

std::vector<ApiError> Fleets::refusals(const FleetRequest& fleet) const {
  std::vector<ApiError> found;
  for (const LaunchOption& option : fleet.options)
    if (auto refused = refuse_launch(cloud_, option);
        refused && std::ranges::find(found, refused->message, &ApiError::message) == found.end())
      found.push_back(std::move(*refused));
  return found;
}

// What a user stopped stays so, and its spot request waits: "disabled".
bool Fleets::restart_one(FleetRequest& fleet, bool spot) {
  if (fleet.type != FleetType::Maintain) return false;
  return std::any_of(fleet.instances.begin(), fleet.instances.end(), [&](const InstanceId& id) {
    const Instance& it = *cloud_.instances.find(id);
    return is_spot(it) == spot && !is_stopped_by_user(it) && Instances(cloud_).restart(id);
  });
}

std::vector<const LaunchOption*> Fleets::open_pools(const FleetRequest& fleet, bool spot) const {
  std::vector<const LaunchOption*> pools;
  for (const LaunchOption& option : fleet.options) {
    if (Instances(cloud_).has_capacity(option, spot) && !refuse_launch(cloud_, option))
      pools.push_back(&option);
  }
  return pools;
}

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-allocation-strategy.html: by price,
// spread over the pools, or where most capacity is (here: by chance).
bool Fleets::launch_one(FleetRequest& fleet, bool spot) {
  const std::vector<const LaunchOption*> pools = open_pools(fleet, spot);
  if (pools.empty()) return false;
  std::size_t chosen = cloud_.random.below(pools.size());
  const std::string& strategy = spot ? fleet.allocation : fleet.on_demand_allocation;
  const auto alive = strategy == "diversified" ? living(fleet) : std::vector<Instance>();
  const auto rank = [&](const LaunchOption& pool) -> double {
    if (strategy.ends_with("prioritized")) return pool.priority.value_or(1e9);
    if (strategy == "diversified") {
      return static_cast<double>(std::count_if(alive.begin(), alive.end(), [&](const auto& it) {
        return it.zone == pool.zone && it.type == pool.type;
      }));
    }
    return strategy == "lowest-price" ? Pools(cloud_).price(pool.type, pool.zone) / pool.weight : 0;
  };
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (rank(*pools[i]) < rank(*pools[chosen])) chosen = i;
  }
  const FleetId by = is_mixed(fleet) ? FleetId("fleet-" + cloud_.random.uuid()) : FleetId();
  const auto launched = Instances(cloud_).launch({.option = *pools[chosen],
                                                  .fleet = fleet.fleet,
                                                  .spot = spot,
                                                  .when_interrupted = fleet.when_interrupted,
                                                  .spot_request = request_of(fleet),
                                                  .by = by});
  if (!launched) return false;
  fleet.instances.push_back(launched->id);
  if (by) add_instant(by, *launched, *pools[chosen]);
  return true;
}

}  // namespace spotter::world
