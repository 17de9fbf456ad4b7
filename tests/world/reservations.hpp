// Capacity reservations that end, the third kind of machine that is taken back: capacity blocks,
// whose end is known, and interruptible reservations, whose owner may reclaim them at any time.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/interruptible-capacity-reservations.html
#pragma once

#include "tests/world/cloud.hpp"

namespace spotter::world {

class Reservations {
 public:
  explicit Reservations(Cloud& cloud) : cloud_(cloud) {}

  // One without ids, which the host has bought, or allocated; AWS's own calls for that are not
  // here. Returns its id.
  Expected<std::string> make(CapacityReservation reservation);
  // Its owner wants it to have no more than so many instances. EC2 names those that end to
  // EventBridge, and ends them `lead` later. `in_metadata`: they have spot's notice in their
  // metadata, too, of which AWS's pages say nothing.
  Expected<void> reclaim(const std::string& id, int instances, Duration lead, bool in_metadata);

  void on(const BlockEnds& happening);  // EC2 begins to end its instances
  void on(const ReclaimEnds& happening);

 private:
  std::vector<InstanceId> living(const std::string& id) const;

  Cloud& cloud_;
};

// A launch that names a reservation, as refuse_launch() has it.
std::optional<ApiError> refuse_reserved(const Cloud& cloud, const LaunchOption& option);

inline constexpr const char* on_demand = "on-demand";
std::string lifecycle_of(const Instance& instance);  // spot, on_demand, or a reservation's market
// AWS names no reason: API_StateReason.html
inline constexpr const char* reclaimed_reason =
    "Server.CapacityReservationTermination: Its capacity reservation has ended, or was reclaimed";

}  // namespace spotter::world
