#include "agent/aws/formats/launching.hpp"

#include "agent/aws/formats/ec2_xml.hpp"

namespace spotter::wire {
namespace {

FleetId read_fleet_id(const Fields& fields, const char* name) {
  const auto id = fields.name<FleetId>(name);
  if (id.empty()) fields.note(name, "is empty");
  return id;
}

}  // namespace

Result<CreatedFleet> decode_created_fleet(std::string_view xml) {
  return read_answer(xml, "CreateFleet", [](const Fields& fields) {
    CreatedFleet made{.id = read_fleet_id(fields, "fleetId"), .instances = 0, .errors = {}};
    for (const Fields& some : fields.optional_items("fleetInstanceSet"))
      made.instances += some.optional_items("instanceIds").size();
    for (const Fields& item : fields.optional_items("errorSet")) {
      const std::string error =
          item.optional_text("errorCode") + ": " + item.optional_text("errorMessage");
      if (made.errors.find(error) != std::string::npos) continue;  // the same of another pool
      made.errors += (made.errors.empty() ? "" : "; ") + error;
    }
    return made;
  });
}

Result<FleetId> decode_requested_spot_fleet(std::string_view xml) {
  return read_answer(xml, "RequestSpotFleet", [](const Fields& fields) {
    return read_fleet_id(fields, "spotFleetRequestId");
  });
}

}  // namespace spotter::wire
