#include "agent/aws/formats/fleet_history.hpp"

#include "agent/aws/formats/ec2_xml.hpp"

namespace spotter::wire {
namespace {

const char* action_of(FleetKind kind) {
  switch (kind) {
    case FleetKind::Ec2Fleet:
      return "DescribeFleetHistory";
    case FleetKind::SpotFleet:
      return "DescribeSpotFleetRequestHistory";
    case FleetKind::AutoScalingGroup:
      return "DescribeScalingActivities";
    case FleetKind::None:
      break;
  }
  return "";
}

// An event of a fleet.
void add_event(const Fields& event, std::vector<LaunchFailure>& to) {
  const std::string type = event.text("eventType");
  const Fields about = event.child("eventInformation");
  const std::string subtype = about.optional_text("eventSubType");
  // `information` has what does not fit now: a price, a pool.
  if (type != "error" && type != "service-error" && subtype != "launchSpecUnusable") return;
  const std::string words = about.optional_text("eventDescription");
  to.push_back({event.time("timestamp"), words.empty() ? subtype : subtype + ": " + words});
}

}  // namespace

Query describe_history(const Fleet& fleet, WallTime since, const std::string& token) {
  const bool group = fleet.kind == FleetKind::AutoScalingGroup;
  Query query{.service = group ? "autoscaling" : "ec2",
              .action = action_of(fleet.kind),
              .repeatable = Repeatable::Read,
              .parameters = {}};
  const char* id = group                                ? "AutoScalingGroupName"
                   : fleet.kind == FleetKind::SpotFleet ? "SpotFleetRequestId"
                                                        : "FleetId";
  query.parameters[id] = fleet.id.str();
  if (!group) query.parameters["StartTime"] = to_rfc3339(since);
  if (!token.empty()) query.parameters["NextToken"] = token;
  return query;
}

Result<Page<LaunchFailure>> decode_history(std::string_view xml, const FleetKind& kind) {
  return read_answer(xml, action_of(kind), [kind](const Fields& fields) {
    Page<LaunchFailure> page;
    if (kind != FleetKind::AutoScalingGroup) {
      for (const Fields& event : fields.items("historyRecordSet")) add_event(event, page.items);
      page.next_token = fields.optional_text("nextToken");
      return page;
    }
    const Fields result = fields.child("DescribeScalingActivitiesResult");
    for (const Fields& activity : result.members("Activities")) {
      const std::string why = activity.optional_text("StatusMessage");
      const bool launch = activity.text("Description").starts_with("Launching");
      if (launch && activity.text("StatusCode") == "Failed" && !why.empty())
        page.items.push_back({activity.time("StartTime"), why});
    }
    // The newest come first: a failure, or a hundred activities without one, are enough.
    return page;
  });
}

}  // namespace spotter::wire
