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

Query describe_templates(const std::string& name, const std::string& next_token) {
  Query query{
      .service = "ec2",
      .action = "DescribeLaunchTemplates",
      .version = "2016-11-15",
      .repeatable = Repeatable::Read,
      .parameters = {{"Filter.1.Name", "launch-template-name"}, {"Filter.1.Value.1", name}}};
  if (!next_token.empty()) query.parameters["NextToken"] = next_token;
  return query;
}

Result<Page<LaunchTemplate>> decode_templates(std::string_view xml) {
  return read_answer(xml, "DescribeLaunchTemplates", [](const Fields& fields) {
    return read_page(fields, "launchTemplates", read_template);
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
