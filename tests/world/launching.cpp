// Shared by RunInstances and both kinds of fleets: where and what to launch.
#include "tests/world/ec2_api.hpp"

namespace spotter::world {

namespace {

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  for (const char letter : text + ',') {
    if (letter == ',') {
      if (!part.empty()) parts.push_back(part);
      part.clear();
    } else if (letter != ' ') {
      part += letter;
    }
  }
  return parts;
}

std::string refine(const std::string& wanted, const std::string& otherwise) {
  return wanted.empty() ? otherwise : wanted;
}

// EC2 API reference: API_Placement.html says of all but the group that it "is not supported for
// CreateFleet"; an override of a Spot Fleet (API_LaunchTemplateOverrides.html) has no Placement.
void take_placement(Session& session, const std::string& override, LaunchOption& option) {
  const Query& query = session.query;
  const std::string placement = override + "Placement.";
  std::string name, id;
  for (const auto& [parameter, value] : query.all()) {
    if (!parameter.starts_with(placement)) continue;
    const std::string member = parameter.substr(placement.size());
    if (parameter.starts_with("SpotFleetRequestConfig."))
      return query.refuse("UnknownParameter", "The parameter " + parameter + " is not recognized");
    if (member == "GroupName")
      name = value;
    else if (member == "GroupId")
      id = value;
    else
      return query.refuse("InvalidParameter", "The parameter Placement." + member +
                                                  " is not supported for CreateFleet");
  }
  if (!name.empty() && !id.empty())
    return query.refuse("InvalidParameterCombination",
                        "If you specify GroupName, you can't specify GroupId");
  for (const auto& [known, group] : session.cloud.placement_groups)
    if (!id.empty() && group.id == id) name = known;
  option.placement_group = refine(refine(name, id), option.placement_group);
}

}  // namespace

std::string zone_id(const Cloud& cloud, const Zone& zone) {
  const auto& all = cloud.settings.zones;
  return "usw2-az" + std::to_string(std::find(all.begin(), all.end(), zone) - all.begin() + 1);
}

std::string reservation_of(const Instance& instance) { return "r-" + instance.id.str().substr(2); }

// Every zone has one default subnet, named after its place in the list of zones.
std::string subnet_of(const Cloud& cloud, const Zone& zone) {
  const auto& zones = cloud.settings.zones;
  const auto place = std::find(zones.begin(), zones.end(), zone) - zones.begin();
  return "subnet-0000000000000000" + std::string(1, static_cast<char>('a' + place));
}

// Subnets are not modelled: any other id belongs to the zone that its last letter picks.
Zone zone_of_subnet(const Cloud& cloud, const std::string& subnet) {
  const auto& zones = cloud.settings.zones;
  for (const Zone& zone : zones) {
    if (subnet_of(cloud, zone) == subnet) return zone;
  }
  return zones[static_cast<unsigned char>(subnet.back()) % zones.size()];
}

std::vector<Site> sites(Session& session, const std::string& zones, const std::string& subnets) {
  const Cloud& cloud = session.cloud;
  std::vector<Site> found;
  for (const std::string& zone : split_commas(zones)) {
    if (!cloud.has_zone(Zone(zone))) {
      session.query.refuse("InvalidParameterValue", "Invalid availability zone: [" + zone + "]");
    }
    found.push_back({Zone(zone), subnet_of(cloud, Zone(zone))});
  }
  for (const std::string& subnet : split_commas(subnets)) {
    found.push_back({zone_of_subnet(cloud, subnet), subnet});
  }
  if (!found.empty()) return found;
  for (const Zone& zone : cloud.settings.zones) found.push_back({zone, subnet_of(cloud, zone)});
  return found;
}

LaunchOption option_of(const LaunchTemplate& launch_template, const TemplateVersion& version) {
  return {.image = version.image,
          .type = version.type,
          .zone = version.zone,
          .user_data = version.user_data,
          .key_name = version.key_name,
          .profile = version.profile,
          .max_price = version.max_price,
          .instance_tags = version.instance_tags,
          .metadata_tags = version.metadata_tags,
          .http_tokens = version.http_tokens,
          .template_id = launch_template.id,
          .template_name = launch_template.name,
          .template_version = std::to_string(version.number),
          .placement_group = version.placement_group,
          .security_groups = version.security_groups,
          .interfaces = version.interfaces};
}

// One option for each override (or the template alone) and zone.
// EC2 API reference: API_FleetLaunchTemplateOverridesRequest.html
std::vector<LaunchOption> template_options(Session& session, const std::string& prefix) {
  const Query& query = session.query;
  const Templates templates(session.cloud);
  std::vector<LaunchOption> options;
  for (const std::string& config : query.members(prefix)) {
    const std::string specification = config + "LaunchTemplateSpecification.";
    const TemplateReference reference{query.text(specification + "LaunchTemplateId"),
                                      query.text(specification + "LaunchTemplateName"),
                                      query.text(specification + "Version", "$Default")};
    const auto version = templates.version(reference);
    if (!version) {
      query.refuse(version.error().code, version.error().message);
      return {};
    }
    const LaunchOption base = option_of(*templates.find(reference), *version);
    std::vector<std::string> overrides = query.members(config + "Overrides");
    if (overrides.empty()) overrides.push_back("(none)");
    for (const std::string& it : overrides) {
      LaunchOption option = base;
      option.image = refine(query.text(it + "ImageId"), option.image);
      option.type = InstanceType(refine(query.text(it + "InstanceType"), option.type.str()));
      option.weight = query.decimal(it + "WeightedCapacity", 1);
      take_placement(session, it, option);
      const std::string zones = query.text(it + "AvailabilityZone");
      const std::string subnets = query.text(it + "SubnetId");
      for (const Site& site :
           sites(session, subnets.empty() ? refine(zones, base.zone.str()) : zones, subnets)) {
        option.zone = site.zone;
        option.subnet = site.subnet;
        options.push_back(option);
      }
    }
  }
  for (LaunchOption& option : options) {
    if (option.type.empty()) option.type = InstanceType(session.cloud.settings.default_type);
  }
  return options;
}

}  // namespace spotter::world
