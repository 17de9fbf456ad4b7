#include "agent/aws/formats/launching.hpp"

#include "agent/aws/formats/ec2_xml.hpp"

namespace spotter::wire {
namespace {

LaunchTemplate read_template(const Fields& fields) {
  return {.id = fields.text("launchTemplateId"),
          .name = fields.text("launchTemplateName"),
          .latest_version = std::to_string(fields.number("latestVersionNumber"))};
}

FleetId read_fleet_id(const Fields& fields, const char* name) {
  const auto id = fields.name<FleetId>(name);
  if (id.empty()) fields.note(name, "is empty");
  return id;
}

}  // namespace

Query describe_templates(const std::string& name) {
  return {.service = "ec2",
          .action = "DescribeLaunchTemplates",
          .version = "2016-11-15",
          .repeatable = Repeatable::Read,
          .parameters = {{"Filter.1.Name", "launch-template-name"}, {"Filter.1.Value.1", name}}};
}

Result<std::vector<LaunchTemplate>> decode_templates(std::string_view xml) {
  return read_answer(xml, "DescribeLaunchTemplates", [](const Fields& fields) {
    std::vector<LaunchTemplate> found;
    for (const Fields& item : fields.items("launchTemplates")) found.push_back(read_template(item));
    return found;
  });
}

Result<LaunchTemplate> decode_created_template(std::string_view xml) {
  return read_answer(xml, "CreateLaunchTemplate", [](const Fields& fields) {
    return read_template(fields.child("launchTemplate"));
  });
}

Result<std::string> decode_template_version(std::string_view xml) {
  return read_answer(xml, "CreateLaunchTemplateVersion", [](const Fields& fields) {
    return std::to_string(fields.child("launchTemplateVersion").number("versionNumber"));
  });
}

Result<FleetId> decode_created_fleet(std::string_view xml) {
  return read_answer(xml, "CreateFleet",
                     [](const Fields& fields) { return read_fleet_id(fields, "fleetId"); });
}

Result<FleetId> decode_requested_spot_fleet(std::string_view xml) {
  return read_answer(xml, "RequestSpotFleet", [](const Fields& fields) {
    return read_fleet_id(fields, "spotFleetRequestId");
  });
}

}  // namespace spotter::wire
