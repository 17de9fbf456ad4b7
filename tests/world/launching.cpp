// Shared by RunInstances and both kinds of fleets: where and what to launch.
#include <cctype>
#include <charconv>

#include "tests/world/ec2_api.hpp"
#include "tests/world/ec2_parameters.hpp"
#include "tests/world/members.hpp"

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
    (void)query.text(parameter);
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

std::string zone_parameter(Session& session, const std::string& prefix) {
  const Query& query = session.query;
  std::string name = query.text(prefix + "AvailabilityZone");
  const std::string id = query.text(prefix + "AvailabilityZoneId");
  if (id.empty()) return name;
  if (!name.empty())
    query.refuse("InvalidParameterCombination",
                 "The parameters AvailabilityZone and AvailabilityZoneId cannot be used together");
  for (const Zone& zone : session.cloud.settings.zones)
    if (zone_id(session.cloud, zone) == id) name = zone.str();
  if (name.empty())
    query.refuse("InvalidParameterValue", "Invalid availability zone ID: [" + id + "]");
  return name;
}

std::string price_parameter(const Query& query, const std::string& name,
                            const std::string& otherwise) {
  const std::string text = query.text(name, otherwise);
  double dollars = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), dollars);
  const bool whole = failed == std::errc{} && end == text.data() + text.size();
  if (!text.empty() && (!whole || !(dollars >= 0.001 && dollars <= 99'999)))
    query.refuse("InvalidParameterValue", "Value (" + text + ") for parameter " +
                                              name.substr(name.rfind('.') + 1) +
                                              " is invalid. It is a price in dollars an hour.");
  return text;
}

InterruptionAction behaviour_parameter(const Query& query, const std::string& name) {
  const std::string text = query.text(name, "terminate");
  if (text == "stop") return InterruptionAction::Stop;
  if (text == "hibernate") return InterruptionAction::Hibernate;
  if (text != "terminate")
    query.refuse("InvalidParameterValue", "Invalid instance interruption behavior: " + text);
  return InterruptionAction::Terminate;
}

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/interruption-behavior.html
void check_behaviour(const Query& query, const FleetRequest& request) {
  if (request.type != FleetType::Maintain &&
      request.when_interrupted != InterruptionAction::Terminate)
    query.refuse("InvalidParameterCombination",
                 "The interruption behaviors stop and hibernate need a fleet of type maintain");
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SpotOptionsRequest.html
const std::vector<std::string>& spot_strategies() {
  static const std::vector<std::string> all = {"lowest-price", "diversified", "capacity-optimized",
                                               "capacity-optimized-prioritized",
                                               "price-capacity-optimized"};
  return all;
}
const std::vector<std::string>& on_demand_strategies() {
  static const std::vector<std::string> all = {"lowest-price", "prioritized"};
  return all;
}

// Spot Fleet says lowestPrice.
std::string strategy_parameter(const Query& query, const std::string& name,
                               const std::vector<std::string>& known) {
  std::string strategy;
  const bool in_camels = name.starts_with("SpotFleetRequestConfig.");
  for (const char c : query.text(name, known.front())) {
    if (query.has(name) && (in_camels ? c == '-' : c >= 'A' && c <= 'Z')) strategy += '?';
    if (std::isupper(static_cast<unsigned char>(c)) != 0) strategy += '-';
    strategy += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (std::ranges::find(known, strategy) == known.end())
    query.refuse("InvalidParameterValue", "Invalid allocation strategy: " + query.text(name));
  return strategy;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_FleetSpotCapacityRebalanceRequest.html
std::optional<Rebalancing> rebalancing_parameter(const Query& query, const std::string& prefix,
                                                 FleetType type) {
  const std::string strategy = query.text(prefix + "ReplacementStrategy");
  const auto delay = query.integer(prefix + "TerminationDelay");
  if (strategy.empty() && !delay) return std::nullopt;
  const bool ends = strategy == "launch-before-terminate";
  if (!ends && strategy != "launch")
    query.refuse("InvalidParameterValue", "Invalid replacement strategy: " + strategy);
  if (type != FleetType::Maintain)
    query.refuse("InvalidParameterCombination",
                 "Capacity rebalancing is only available for fleets of type maintain");
  if (ends != delay.has_value())
    query.refuse("InvalidParameterCombination",
                 "TerminationDelay is required with launch-before-terminate, and only valid then");
  if (delay && (*delay < 120 || *delay > 7200))
    query.refuse("InvalidParameterValue", "TerminationDelay must be from 120 to 7200 seconds");
  Rebalancing found;
  if (ends && delay) found.terminates_after = Duration{*delay * 1000LL};
  return found;
}

LaunchExtras extras_parameters(const Query& query, const std::string& prefix, LaunchExtras extras) {
  const auto read = [&](const char* name, bool& into) {
    if (query.has(prefix + name)) into = query.boolean(prefix + name);
  };
  read("Monitoring.Enabled", extras.monitoring);
  read("EbsOptimized", extras.ebs_optimized);
  read("DisableApiStop", extras.keeps_running);
  read("DisableApiTermination", extras.keeps_existing);
  for (const std::string& it : query.members(prefix + "NetworkInterface"))
    if (query.has(it + "AssociatePublicIpAddress"))
      extras.public_address = query.boolean(it + "AssociatePublicIpAddress");
  const auto choose = [&](const char* name, const std::string& yes, const std::string& no,
                          bool& into) {
    const std::string text = query.text(prefix + name);
    if (text.empty()) return;
    into = text == yes;
    if (text != yes && text != no)
      query.refuse("InvalidParameterValue", "Value (" + text + ") for parameter " + name +
                                                " is invalid. Valid: " + yes + ", " + no);
  };
  choose("InstanceInitiatedShutdownBehavior", "stop", "terminate", extras.stops_itself);
  choose("MetadataOptions.HttpEndpoint", "disabled", "enabled", extras.metadata_off);
  return extras;
}

// A block that is for documentation (RFC 5737).
std::string public_address(const Instance& instance) {
  if (!instance.extras.public_address) return {};
  return "203.0.113" + instance.address.substr(instance.address.rfind('.'));
}

int hop_limit_parameter(const Query& query, const std::string& name) {
  const auto hops = query.integer(name);
  if (hops && (*hops < 1 || *hops > 64))
    query.refuse("InvalidParameterValue", "The hop limit must be from 1 to 64");
  return hops.value_or(0);
}

void check_disk(const Query& query, const std::string& prefix) {
  const std::string ebs = prefix + "Ebs.";
  if (const std::string name = query.required(prefix + "DeviceName"); !is_device_name(name))
    query.refuse("InvalidBlockDeviceMapping", "'" + name + "' is not a valid EBS device name.");
  (void)query.boolean(ebs + "DeleteOnTermination");
  VolumeShape shape{query.text(ebs + "VolumeType", "gp2"),
                    {},
                    query.integer(ebs + "Iops"),
                    query.integer(ebs + "Throughput")};
  if (const auto size = query.integer(ebs + "VolumeSize"))
    shape.gibibytes = static_cast<std::uint64_t>(*size);
  if (auto fits = check_shape(shape); !fits) query.refuse(fits.error().code, fits.error().message);
}

std::optional<ApiError> refuse_more_disks(const TemplateVersion& version) {
  const Query query(version.sent);
  for (const std::string& it : query.members("BlockDeviceMapping"))
    if (const std::string device = query.text(it + "DeviceName"); device != root_device)
      return ApiError{"UnsupportedOperation",
                      not_honoured("BlockDeviceMapping.DeviceName", device)};
  return std::nullopt;
}

std::vector<std::string> security_groups(Session& session, const std::string& prefix) {
  std::vector<std::string> ids = session.query.list(prefix + "SecurityGroupId");
  for (const std::string& name : session.query.list(prefix + "SecurityGroup")) {
    const auto& all = session.cloud.security_groups;
    const auto found =
        std::ranges::find_if(all, [&](const auto& it) { return it.second.name == name; });
    if (found == all.end())
      session.query.refuse("InvalidGroup.NotFound",
                           "The security group '" + name + "' does not exist");
    else
      ids.push_back(found->first);
  }
  return ids;
}

namespace {

// API_CapacityReservationTarget.html; the preference beside it says the opposite.
void read_reserved(const Query& query, const std::string& prefix, LaunchOption& option) {
  const std::string of = prefix + "CapacityReservationSpecification.";
  const std::string id = query.text(of + "CapacityReservationTarget.CapacityReservationId");
  const std::string preference = query.text(of + "CapacityReservationPreference");
  if (!preference.empty() && !id.empty())
    query.refuse("InvalidParameterCombination",
                 "CapacityReservationPreference and CapacityReservationTarget cannot be used "
                 "together");
  if (!id.empty() && !is_resource_id(id, "cr-"))
    query.refuse("InvalidCapacityReservationId.Malformed", "Invalid id: \"" + id + '"');
  if (!id.empty()) option.reserved.id = id;
  if (!preference.empty()) option.reserved.id.clear();  // a template's
}

}  // namespace

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SpotMarketOptions.html
void read_market(Session& session, const std::string& prefix, LaunchOption& option, bool& spot) {
  const Query& query = session.query;
  const std::string of = prefix + "InstanceMarketOptions.", options = of + "SpotOptions.";
  read_reserved(query, prefix, option);
  if (query.below(of).empty()) return;
  const std::string market = query.text(of + "MarketType");
  const bool reserved = market == block_market || market == interruptible_market;
  if ((market != "spot" && !reserved) || (reserved && !query.below(options).empty()))
    query.refuse("InvalidParameterCombination", "Spot options need the market type spot");
  spot = !reserved;
  option.reserved.market = reserved ? market : "";
  if (reserved) return;
  option.max_price = price_parameter(query, options + "MaxPrice", option.max_price);
  if (query.below(options).empty()) return;
  const std::string type = query.text(options + "SpotInstanceType", "one-time");
  if (type != "one-time" && type != "persistent")
    query.refuse("InvalidParameterValue", "Invalid spot instance type: " + type);
  option.terms = {type == "persistent",
                  behaviour_parameter(query, options + "InstanceInterruptionBehavior"),
                  time_parameter(session, options + "ValidUntil")};
  const SpotTerms& terms = option.terms;
  if (!terms.persistent && terms.when_interrupted != InterruptionAction::Terminate)
    query.refuse("InvalidParameterCombination",
                 "The interruption behaviors stop and hibernate need a persistent spot request");
  if (!terms.persistent && terms.valid_until)
    query.refuse("InvalidParameterCombination",
                 "ValidUntil is supported for persistent spot requests only");
}

std::string reservation_of(const Instance& instance) {
  return instance.reservation.empty() ? "r-" + instance.id.str().substr(2) : instance.reservation;
}

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

std::string block_of_subnet(const Cloud& cloud, const std::string& subnet) {
  const auto& zones = cloud.settings.zones;
  const auto place = std::ranges::find(zones, zone_of_subnet(cloud, subnet)) - zones.begin();
  return "172.31." + std::to_string(place) + ".0/24";
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
          .interfaces = version.interfaces,
          .hop_limit = version.hop_limit,
          .terms = version.terms,
          .extras = version.extras,
          .reserved = version.reserved};
}

TemplateReference template_reference(const Query& query, const std::string& prefix) {
  const TemplateReference named{query.text(prefix + "LaunchTemplateId"),
                                query.text(prefix + "LaunchTemplateName"),
                                query.text(prefix + "Version", "$Default")};
  if (named.id.empty() && named.name.empty()) (void)query.required(prefix + "LaunchTemplateId");
  return named;
}

// One option for each override (or the template alone) and zone.
// EC2 API reference: API_FleetLaunchTemplateOverridesRequest.html
std::vector<LaunchOption> template_options(Session& session, const std::string& prefix) {
  const Query& query = session.query;
  const Templates templates(session.cloud);
  std::vector<LaunchOption> options;
  for (const std::string& config : query.members(prefix)) {
    const std::string specification = config + "LaunchTemplateSpecification.";
    // "You must specify a value, otherwise the request fails":
    // API_FleetLaunchTemplateSpecificationRequest.html
    const TemplateReference reference = template_reference(query, specification);
    (void)query.required(specification + "Version");
    if (query.error()) return {};
    const auto version = templates.version(reference);
    if (!version) {
      query.refuse(version.error().code, version.error().message);
      return {};
    }
    if (const auto why = refuse_more_disks(*version)) query.refuse(why->code, why->message);
    const LaunchOption base = option_of(*templates.find(reference), *version);
    std::vector<std::string> overrides = query.members(config + "Overrides");
    if (overrides.empty()) overrides.push_back("(none)");
    for (const std::string& it : overrides) {
      LaunchOption option = base;
      option.image = refine(query.text(it + "ImageId"), option.image);
      option.type = InstanceType(refine(query.text(it + "InstanceType"), option.type.str()));
      option.weight = query.decimal(it + "WeightedCapacity", 1);
      const bool spot_fleet = prefix.starts_with("SpotFleetRequestConfig.");
      option.max_price =
          price_parameter(query, it + (spot_fleet ? "SpotPrice" : "MaxPrice"), option.max_price);
      if (query.has(it + "Priority"))
        option.priority = std::atof(query.text(it + "Priority").c_str());
      take_placement(session, it, option);
      const std::string zones = zone_parameter(session, it);
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
