// Spot Fleet requests, EC2 Fleets and Auto Scaling groups (groups.hpp has what only those have):
// one machine, three vocabularies.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/work-with-spot-fleets.html (states),
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/manage-ec2-fleet.html
#pragma once

#include <string_view>

#include "tests/world/cloud.hpp"

namespace spotter::world {

// One id's part of CancelSpotFleetRequests or DeleteFleets, each of which may fail alone.
struct FleetCancellation {
  FleetId id;
  FleetState before = FleetState::Active;
  FleetState after = FleetState::Cancelled;
  std::optional<ApiError> error;
};

struct ModifyFleet {
  FleetId id;
  std::optional<int> target;
  std::optional<int> on_demand;  // of the target
  std::optional<std::string> excess_policy;
};

struct LaunchInstance;

class Fleets {
 public:
  explicit Fleets(Cloud& cloud) : cloud_(cloud) {}

  // Reasons why EC2 would not launch by an option, whatever capacity there is.
  std::vector<ApiError> refusals(const FleetRequest& fleet) const;
  // `request` without id, state and times; its options must name existing zones.
  Expected<FleetRequest> create(FleetRequest request);
  // A persistent spot request (a fleet of one, of kind None, with the request's id), which has its
  // instance at once, or none is made.
  Expected<Instance> launch_persistent(const LaunchInstance& request);
  // CancelSpotInstanceRequests: its instance goes on.
  void cancel_spot_request(const FleetId& id);
  std::vector<FleetCancellation> cancel(const std::vector<FleetId>& ids, FleetKind kind,
                                        bool terminate);
  Expected<void> modify(const ModifyFleet& request, FleetKind kind);

  const FleetRequest* seen(const FleetId& id) const;
  std::vector<FleetRequest> list(FleetKind kind) const;
  std::vector<Instance> living(const FleetRequest& fleet) const;
  double fulfilled(const FleetRequest& fleet) const;
  double fulfilled(const FleetRequest& fleet, bool spot) const;  // of that kind alone
  std::string activity(const FleetRequest& fleet) const;  // pending_fulfillment, fulfilled, ...

  FleetRequest& change(const FleetId& id);  // REQUIRES: it is there
  void look_soon(const FleetId& id);
  void instance_ended(const FleetId& id);
  void rebalance(const InstanceId& id);  // got a recommendation

  void capacity_changed();
  void on(const FleetWakes& happening);

 private:
  void wake(FleetRequest& fleet, Range range);
  std::vector<const LaunchOption*> open_pools(const FleetRequest& fleet, bool spot) const;
  void launch_missing(FleetRequest& fleet);
  void record_failure(FleetRequest& fleet, bool spot);
  bool launch_missing(FleetRequest& fleet, bool spot);  // false: there was no capacity
  void terminate_excess(FleetRequest& fleet, bool spot);
  bool launch_one(FleetRequest& fleet, bool spot);
  void add_instant(const FleetId& id, const Instance& instance, const LaunchOption& option);
  bool restart_one(FleetRequest& fleet, bool spot);
  void expire(FleetRequest& fleet);
  void settle(FleetRequest& fleet);

  Cloud& cloud_;
};

double weight_of(const FleetRequest& fleet, const Instance& instance);  // towards the target
std::string_view name(FleetState state, FleetKind kind);
// The spot price, in dollars an hour, of a pool whose price nobody set (pools.hpp); fixed by the
// names, not by the seed. On-demand capacity costs three times as much.
double usual_price(const InstanceType& type, const Zone& zone);

}  // namespace spotter::world
