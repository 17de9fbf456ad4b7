// A fleet's recorded history, in the two forms in which EC2 shows it.
#include <algorithm>

#include "tests/world/ec2_api.hpp"

namespace spotter::world {

std::vector<HistoryEvent> events_of(const Cloud& cloud, const FleetRequest& fleet) {
  std::vector<HistoryEvent> events;
  for (const HistoryEvent& event : cloud.history) {
    const auto is_it = [&event](const InstanceId& id) { return id.view() == event.subject; };
    if (event.subject == fleet.fleet.id.view() || std::ranges::any_of(fleet.instances, is_it))
      events.push_back(event);
  }
  return events;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EventInformation.html
Xml history_of(Session& session, const FleetRequest& fleet, Time start, const HistoryForm& form) {
  const Cloud& cloud = session.cloud;
  std::vector<HistoryEvent> events = events_of(cloud, fleet);
  const std::string only = session.query.text("EventType");
  const bool known =
      only.empty() || only == "information" ||
      std::ranges::any_of(form.names, [&](const auto& it) { return it.second.first == only; });
  if (!known) session.query.refuse("InvalidParameterValue", "Invalid event type: " + only);
  std::erase_if(events, [&](const HistoryEvent& event) {
    const auto shown_as = form.names.find(event.kind);
    return event.at < start || shown_as == form.names.end() ||
           (!only.empty() && shown_as->second.first != only);
  });
  const auto shown = page(std::move(events), session.query);
  Xml xml;
  xml.text(form.id, fleet.fleet.id.view());
  xml.text("startTime", xml_time(cloud.wall(start)));
  xml.text("lastEvaluatedTime", xml_time(cloud.wall(cloud.now)));
  xml.items("historyRecordSet", shown.rows, [&](const HistoryEvent& event) {
    const auto& [type, subtype] = form.names.at(event.kind);
    xml.text("timestamp", xml_time(cloud.wall(event.at)));
    xml.text("eventType", type);
    xml.element("eventInformation", [&, &said = subtype] {
      if (event.subject.starts_with("i-")) xml.text("instanceId", event.subject);
      xml.text("eventSubType", said);
      xml.text("eventDescription", event.detail);
    });
  });
  xml.optional("nextToken", shown.next);
  return xml;
}

}  // namespace spotter::world
