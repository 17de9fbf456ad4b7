#include "tests/world/reservations.hpp"

#include <algorithm>

#include "tests/world/ec2_api.hpp"
#include "tests/world/instances.hpp"

namespace spotter::world {
namespace {

bool is_block(const CapacityReservation& it) { return it.market == block_market; }

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservation.html, state
const char* state_of(const Cloud& cloud, const CapacityReservation& it) {
  if (cloud.now < it.begins) return "scheduled";
  return it.ends && *it.ends <= cloud.now ? "expired" : "active";
}

int living_in(const Cloud& cloud, const std::string& id) {
  int living = 0;
  cloud.instances.each([&](const Instance& it) { living += it.reserved.id == id && is_alive(it); });
  return living;
}

// An instance that shuts down has its place until it is gone.
int used(const Cloud& cloud, const std::string& id) {
  int in_use = 0;
  cloud.instances.each([&](const Instance& it) {
    in_use += it.reserved.id == id && it.state != InstanceState::Terminated &&
              it.state != InstanceState::Stopped;
  });
  return in_use;
}

// "You will receive an Insufficient Capacity Error" of a block that is full or has not begun:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-launch-instances-capacity-blocks-walkthrough.html
// The other codes are those of On-Demand Capacity Reservations; AWS lists none for these kinds.
ApiError full(const CapacityReservation& it, const std::string& why) {
  if (is_block(it))
    return {"InsufficientInstanceCapacity",
            "There is no capacity in " + it.id + " for this request: " + why, 500};
  return {"ReservationCapacityExceeded",
          "The requested reservation does not have sufficient compatible and available capacity "
          "for this request: " +
              it.id + " " + why};
}

void write_allocation(Xml& xml, const CapacityReservation& it) {
  xml.element("interruptibleCapacityAllocation", [&] {
    xml.value("instanceCount", it.total);
    xml.value("targetInstanceCount", it.target);
    xml.text("status", it.target == it.total ? "active" : "updating");
    xml.text("interruptibleCapacityReservationId", it.id);
    xml.text("interruptionType", "adhoc");
  });
}

// One row: the reservation itself, or the one that it has its instances of.
struct Row {
  std::string id;
  const CapacityReservation* it;
  Tags tags;
  bool is_source() const { return id != it->id; }
};

void write_row(Xml& xml, const Cloud& cloud, const Row& row) {
  const CapacityReservation& it = *row.it;
  xml.text("capacityReservationId", row.id);
  xml.text("ownerId", cloud.settings.account);
  xml.text("capacityReservationArn", "arn:aws:ec2:" + cloud.settings.region.str() + ":" +
                                         cloud.settings.account + ":capacity-reservation/" +
                                         row.id);
  xml.text("availabilityZoneId", zone_id(cloud, it.zone));
  xml.text("instanceType", it.type.view());
  xml.text("instancePlatform", "Linux/UNIX");
  xml.text("availabilityZone", it.zone.view());
  xml.text("tenancy", "default");
  const int free = row.is_source() ? 0 : std::max(0, it.total - used(cloud, it.id));
  xml.value("totalInstanceCount", it.total);
  xml.value("availableInstanceCount", free);
  xml.value("ebsOptimized", false);
  xml.value("ephemeralStorage", false);
  xml.text("state", state_of(cloud, it));
  xml.text("startDate", xml_time(cloud.wall(it.begins)));
  if (it.ends) xml.text("endDate", xml_time(cloud.wall(*it.ends)));
  xml.text("endDateType", it.ends ? "limited" : "unlimited");
  xml.text("instanceMatchCriteria", "targeted");
  xml.text("createDate", xml_time(cloud.wall(it.created)));
  write_tags(xml, row.tags);
  xml.text("reservationType", is_block(it) ? "capacity-block" : "default");
  if (row.is_source()) return write_allocation(xml, it);
  xml.value("interruptible", !is_block(it));
  if (is_block(it)) return;
  xml.element("interruptionInfo", [&] {
    xml.text("sourceCapacityReservationId", it.source);
    xml.text("interruptionType", "adhoc");
  });
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeCapacityReservations.html
Answer describe_capacity_reservations(Session& session) {
  const Cloud& cloud = session.cloud;
  std::vector<Row> rows;
  for (const auto& [id, it] : cloud.reservations) {
    rows.push_back({id, &it, it.tags});
    if (!it.source.empty()) rows.push_back({it.source, &it, {}});
  }
  std::ranges::sort(rows, {}, &Row::id);
  const auto page = select<Row>(
      session, std::move(rows), session.query.list("CapacityReservationId"),
      "InvalidCapacityReservationId.NotFound",
      {"instance-type", "owner-id", "instance-platform", "availability-zone", "tenancy", "state",
       "instance-match-criteria"},
      [&](const Row& row) -> Facts {
        return {{"instance-type", row.it->type.str()},
                {"owner-id", cloud.settings.account},
                {"instance-platform", "Linux/UNIX"},
                {"availability-zone", row.it->zone.str()},
                {"tenancy", "default"},
                {"state", state_of(cloud, *row.it)},
                {"instance-match-criteria", "targeted"}};
      },
      [](const Row& row) { return row.id; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("capacityReservationSet", page->rows,
            [&](const Row& row) { write_row(xml, cloud, row); });
  xml.optional("nextToken", page->next);
  return xml;
}

}  // namespace

std::string lifecycle_of(const Instance& instance) {
  if (is_spot(instance)) return "spot";
  return instance.reserved ? instance.reserved.market : on_demand;
}

std::optional<ApiError> refuse_reserved(const Cloud& cloud, const LaunchOption& option) {
  const Reserved& wanted = option.reserved;
  if (!wanted) return std::nullopt;
  if (wanted.id.empty())
    return ApiError{"InvalidParameterCombination",
                    "The market type " + wanted.market + " needs a CapacityReservationId"};
  const auto found = cloud.reservations.find(wanted.id);
  if (found == cloud.reservations.end())
    return ApiError{"InvalidCapacityReservationId.NotFound",
                    "The capacity reservation ID '" + wanted.id + "' does not exist"};
  const CapacityReservation& it = found->second;
  if (it.market != wanted.market)
    return ApiError{"InvalidParameterCombination",
                    wanted.id + " needs the market type " + it.market};
  if (it.type != option.type || it.zone != option.zone)
    return ApiError{"InvalidParameterCombination",
                    wanted.id + " is of " + it.type.str() + " in " + it.zone.str() +
                        ", and the launch of " + option.type.str() + " in " + option.zone.str()};
  if (const std::string state = state_of(cloud, it); state != "active")
    return full(it, "it is " + state);
  const bool clears = it.ends && *it.ends - cloud.settings.block_cleared <= cloud.now;
  if (clears) return full(it, "its instances are about to end");
  if (used(cloud, it.id) >= std::min(it.total, it.target)) return full(it, "it is full");
  return std::nullopt;
}

Expected<std::string> Reservations::make(CapacityReservation it) {
  if (it.market != block_market && it.market != interruptible_market)
    return refusal("InvalidParameterValue", "'" + it.market + "' is no kind of reservation");
  if (!cloud_.has_zone(it.zone))
    return refusal("InvalidParameterValue", "Invalid availability zone: [" + it.zone.str() + "]");
  if (is_block(it) != it.ends.has_value() || (it.ends && *it.ends <= it.begins) || it.total < 1)
    return refusal("InvalidParameterValue",
                   "a capacity block has an end after its beginning, and no other reservation has "
                   "one; each has one instance at least");
  it.id = "cr-0" + cloud_.random.hex(16);
  if (!is_block(it)) it.source = "cr-0" + cloud_.random.hex(16);
  it.target = it.total;
  it.created = cloud_.now;
  cloud_.record("capacity-reserved", it.id, it.market);
  if (it.ends) {
    const Duration left = *it.ends - cloud_.settings.block_cleared - cloud_.now;
    cloud_.schedule(std::max(Duration{0}, left), BlockEnds{it.id});
  }
  return (cloud_.reservations[it.id] = it).id;
}

std::vector<InstanceId> Reservations::living(const std::string& id) const {
  std::vector<InstanceId> all;
  cloud_.instances.each([&](const Instance& it) {
    if (it.reserved.id == id && is_alive(it)) all.push_back(it.id);
  });
  return all;
}

Expected<void> Reservations::reclaim(const std::string& id, int instances, Duration lead,
                                     bool in_metadata) {
  const auto found = cloud_.reservations.find(id);
  if (found == cloud_.reservations.end() || is_block(found->second))
    return refusal("InvalidCapacityReservationId.NotFound",
                   "'" + id + "' is no interruptible capacity reservation");
  CapacityReservation& it = found->second;
  if (instances < 0 || instances >= it.target)
    return refusal("InvalidParameterValue", id + " has " + std::to_string(it.target) +
                                                " instances: what is left of it is fewer");
  it.target = instances;
  cloud_.record("capacity-reclaimed", id, std::to_string(instances));
  auto doomed = living(id);
  for (int more = living_in(cloud_, id) - instances; more > 0; --more) {
    const auto at =
        doomed.begin() + static_cast<std::ptrdiff_t>(cloud_.random.below(doomed.size()));
    if (in_metadata) Instances(cloud_).give_notice(*at, lead);
    cloud_.schedule(lead, ReservedEnds{*at});
    doomed.erase(at);
  }
  cloud_.schedule(lead, ReclaimEnds{id, cloud_.reclaims[id] = cloud_.number()});
  return {};
}

// "EC2 begins" then: each may end at once, and the last one with the block.
void Reservations::on(const BlockEnds& happening) {
  cloud_.record("capacity-block-ends", happening.id);
  const CapacityReservation& it = cloud_.reservations[happening.id];
  const Duration left = std::max(Duration{0}, *it.ends - cloud_.now);
  for (const InstanceId& id : living(happening.id))
    cloud_.schedule(cloud_.random.up_to(left), ReservedEnds{id});
}

void Reservations::on(const ReclaimEnds& happening) {
  if (cloud_.reclaims[happening.id] != happening.number) return;
  CapacityReservation& it = cloud_.reservations[happening.id];
  it.total = it.target;
}

void add_reservation_operations(Operations& operations) {
  operations["DescribeCapacityReservations"] = describe_capacity_reservations;
}

}  // namespace spotter::world
